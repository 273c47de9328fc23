// ranges_[i] is the input range of byte i; both vectors grow together.

#include "core/text/tokenizer/aligned_text.h"

#include <algorithm>

#include "core/base/utf8.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// Returns the size of the maximal invalid piece at input[at], which repairs to one U+FFFD.
size_t invalid_piece(std::string_view input, size_t at) {
  // A broken sequence lacks at least its last byte, so it has at most three.
  size_t size = std::min<size_t>(3, input.size() - at);
  while (size > 1 && repair_utf8(input.substr(at, size)) != kReplacementCharacter) --size;
  return size;
}

}  // namespace

ByteRange AlignedText::character_origin(size_t at) const {
  const std::string_view bytes = text();
  // The whole character, even if `at` is in the middle of it.
  while (at > 0 && is_continuation(bytes[at])) --at;
  return origin(at, at + utf8_size(bytes[at]));
}

ByteRange AlignedText::empty_origin(size_t at) const {
  const uint32_t begin = at < ranges_.size() ? ranges_[at].begin : at > 0 ? ranges_[at - 1].end : 0;
  return {begin, begin};
}

void AlignedText::extend_front(uint32_t begin) {
  // Only the bytes of the first character.
  for (size_t i = 0; i < bytes_.size() && (i == 0 || is_continuation(bytes_[i])); ++i) {
    ranges_[i].begin = begin;
  }
}

AlignedText AlignedText::slice(size_t begin, size_t end) const {
  // A view has no ranges: byte i comes from input byte shift_ + i.
  if (!owned_) return AlignedText(view_.substr(begin, end - begin), shift_ + uint32_t(begin));
  AlignedText out;
  out.bytes_ = bytes_.substr(begin, end - begin);
  out.ranges_.assign(ranges_.begin() + int64_t(begin), ranges_.begin() + int64_t(end));
  out.owned_ = true;
  out.most_ = most_;
  return out;
}

AlignedTextBuilder::AlignedTextBuilder(const AlignedText& from) : from_(from) {
  out_.owned_ = true;
  // The limit follows the input, not the text before this step.
  out_.most_ = from.most_;
  out_.bytes_.reserve(from.size() + from.size() / 2 + 16);
  out_.ranges_.reserve(from.size() + from.size() / 2 + 16);
}

void AlignedTextBuilder::check_size() const {
  if (out_.bytes_.size() <= out_.most_) return;
  throw TextGrowth(
      fmt::format("a text grows beyond {} bytes, 64 times its size plus 1 MiB", out_.most_));
}

void AlignedTextBuilder::copy(size_t begin, size_t end) {
  out_.bytes_.append(from_.text().substr(begin, end - begin));
  check_size();
  // A view has no ranges yet.
  if (from_.owned_) {
    out_.ranges_.insert(out_.ranges_.end(), from_.ranges_.begin() + int64_t(begin),
                        from_.ranges_.begin() + int64_t(end));
    return;
  }
  for (size_t i = begin; i < end; ++i) {
    const uint32_t at = from_.shift_ + uint32_t(i);
    out_.ranges_.push_back({at, at + 1});
  }
}

void AlignedTextBuilder::insert(std::string_view bytes, ByteRange origin) {
  out_.bytes_.append(bytes);
  check_size();
  out_.ranges_.insert(out_.ranges_.end(), bytes.size(), origin);
}

void AlignedTextBuilder::edit(size_t begin, size_t end, std::span<const CharacterEdit> edits) {
  const std::string_view text = from_.text();
  size_t at = begin;
  std::string bytes;
  for (const CharacterEdit& edit : edits) {
    // change > 0 inserts a character, 0 replaces one, -n replaces n + 1 of them.
    const bool replaces = edit.change <= 0 && at < end;
    // An unchanged character is copied with its ranges.
    if (replaces && edit.change == 0 && utf8_character(text, at) == edit.character) {
      const size_t next = at + utf8_size(text[at]);
      copy(at, next);
      at = next;
      continue;
    }
    bytes.clear();
    append_utf8(bytes, edit.character);
    // An inserted character belongs to the old one before it.
    const size_t origin = replaces ? at : at > 0 ? utf8_before(text, at) : 0;
    insert(bytes, from_.character_origin(origin));
    // The replaced character and -change further ones.
    for (int32_t taken = 0; replaces && taken <= -edit.change && at < end; ++taken) {
      at += utf8_size(text[at]);
    }
  }
}

AlignedText AlignedTextBuilder::finish() { return std::move(out_); }

AlignedText repaired_text(std::string_view input, uint32_t& replaced) {
  replaced = 0;
  const AlignedText whole(input, 0);
  AlignedTextBuilder builder(whole);
  for (size_t at = 0; at < input.size();) {
    const CodePoint point = read_utf8(input, at);
    const size_t size = point.valid ? point.size : invalid_piece(input, at);
    if (point.valid) {
      builder.copy(at, at + size);
    } else {
      builder.insert(kReplacementCharacter, {uint32_t(at), uint32_t(at + size)});
      replaced += uint32_t(size);
    }
    at += size;
  }
  return builder.finish();
}

}  // namespace xrun
