// Three steps make pieces canonical:
// A. two pieces that together spell one of ten characters in GPT-2's byte alphabet become that
//    character;
// B. each piece goes through canonical_token();
// C. a run of tokens whose characters all stand for bytes becomes one character, if its bytes are
//    the UTF-8 of exactly one.
// NeMo-RL, the reference, has defects in these steps. They are kept because its users train with
// them: B turns "Ã" into "À" before C can decode it; C counts ASCII as bytes, so that a split
// character next to ASCII text stays split; and C's table of bytes is not GPT-2's alphabet.

#include "core/align/dp_canonical.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/utf8.h"
#include "core/text/tokenizer/byte_alphabet.h"
#include "core/text/tokenizer/piece_hash.h"

namespace xrun {
namespace {

constexpr std::string_view kSpaceMark = "Ġ", kNewlineMark = "Ċ", kTabMark = "ĉ";

std::string spelled(std::string_view bytes) {
  std::string out;
  append_spelled(out, bytes);
  return out;
}

// ---- step A

struct SplitCharacter {
  std::string head, tail;  // spellings of the first two bytes and of the third
  std::string character;
};

const std::vector<SplitCharacter>& split_characters() {
  static const std::vector<SplitCharacter> table = [] {
    std::vector<SplitCharacter> made;
    for (const std::string_view c : {"∑", "∏", "∂", "∇", "∞", "√", "∫", "≠", "中", "文"}) {
      made.push_back({.head = spelled(c.substr(0, 2)),
                      .tail = spelled(c.substr(2)),
                      .character = std::string(c)});
    }
    return made;
  }();
  return table;
}

// A head is two characters of two bytes each, which "Ġ" may precede.
std::string_view without_space(std::string_view first) {
  const bool spaced = first.size() == 6 && first.starts_with(kSpaceMark);
  return first.substr(spaced ? kSpaceMark.size() : 0);
}

bool is_split_head(std::string_view piece) {
  const std::string_view head = without_space(piece);
  return std::ranges::any_of(split_characters(),
                             [&](const SplitCharacter& split) { return head == split.head; });
}

// Returns the character of the table that two adjacent pieces spell, after "Ġ" if the first begins
// with it; "" if they spell none.
std::string joined_split(std::string_view first, std::string_view second) {
  const std::string_view head = without_space(first);
  for (const SplitCharacter& split : split_characters()) {
    if (head == split.head && second == split.tail) {
      return std::string(head.size() < first.size() ? kSpaceMark : "") + split.character;
    }
  }
  return {};
}

// ---- step B

struct Replacement {
  std::string broken, fixed;
};

// Applied in this order. The reference lists eight more Latin letters after the bare "Ã"; they
// never match, since no "Ã" is left. "í" never matches either, because GPT-2 does not spell the
// byte 0xAD as its Latin-1 character.
const std::vector<Replacement>& misspellings() {
  static const std::vector<Replacement> table = [] {
    std::vector<Replacement> made;
    for (const std::string_view letter : {"ñ", "á", "é", "í", "ó", "ú"}) {
      // The two bytes of the letter, each read as a character of Latin-1.
      std::string broken;
      for (const char byte : letter) append_utf8(broken, static_cast<unsigned char>(byte));
      made.push_back({broken, std::string(letter)});
    }
    made.push_back({"Ã", "À"});
    for (const std::string_view text : {"中", "文", "日本", "語", "Рус", "ский", "العربية", "ह"}) {
      made.push_back({spelled(text), std::string(text)});
    }
    made.push_back({spelled("िं"), "हिं"});  // adds a letter
    for (const std::string_view text :
         {"दी", "∑", "∏", "∂", "∇", "∞", "√", "∫", "≈", "≠", "≤", "≥"}) {
      made.push_back({spelled(text), std::string(text)});
    }
    return made;
  }();
  return table;
}

// Replaces from left to right, never inside what it has written.
void replace_all(std::string& text, std::string_view old, std::string_view with) {
  for (size_t at = text.find(old); at != std::string::npos; at = text.find(old, at + with.size())) {
    text.replace(at, old.size(), with);
  }
}

// Spells every newline as a line feed, and also a token that is a tab, as the reference does.
void unify_newlines(std::string& token) {
  constexpr std::string_view kEscaped = "\\n";
  if (token == kTabMark || token == "Ġ\n") {
    token = "\n";
  } else if (token.find(kNewlineMark) != std::string::npos) {
    replace_all(token, kNewlineMark, "\n");
  } else {
    replace_all(token, kEscaped, "\n");
  }
}

// ---- step C

constexpr size_t kMostCharacterBytes = 4;  // of UTF-8
// Number of pieces between the prefetch of a slot and its use: the table is larger than the L1
// cache.
constexpr size_t kAhead = 8;

// Returns the byte that the reference takes a character for, or -1. Beyond Latin-1 it is not the
// byte that GPT-2 spells with the character, and some characters of GPT-2's alphabet have none.
int byte_of(uint32_t character) {
  if (character < 0x100) return static_cast<int>(character);
  struct ByteBlock {
    uint32_t first, last;
    int byte;  // the byte of `first`
  };
  constexpr std::array<ByteBlock, 4> kBlocks = {
      {{0x11C, 0x11F, 28}, {0x122, 0x123, 162}, {0x125, 0x144, 128}, {0x196, 0x1A4, 241}}};
  for (const ByteBlock& block : kBlocks) {
    if (character >= block.first && character <= block.last) {
      return block.byte + static_cast<int>(character - block.first);
    }
  }
  return -1;
}

std::string_view without_space_marks(std::string_view token) {
  while (token.starts_with(kSpaceMark)) token.remove_prefix(kSpaceMark.size());
  return token;
}

// Returns the bytes of a token without its leading "Ġ"s; "" unless every character stands for one.
std::string bytes_of(std::string_view token) {
  std::string bytes;
  const std::string_view rest = without_space_marks(token);
  for (size_t at = 0; at < rest.size();) {
    if (static_cast<unsigned char>(rest[at]) < 0x80) {
      bytes.push_back(rest[at++]);
      continue;
    }
    const CodePoint point = read_utf8(rest, at);
    const int byte = point.valid ? byte_of(point.value) : -1;
    if (byte < 0) return {};
    bytes.push_back(static_cast<char>(byte));
    at += point.size;
  }
  return bytes;
}

}  // namespace

std::string canonical_token(std::string_view piece) {
  std::string token(piece);
  for (const std::string_view blank : {" ", "_", "▁"}) {
    if (!piece.starts_with(blank)) continue;
    token.replace(0, blank.size(), kSpaceMark);
    break;
  }
  unify_newlines(token);
  for (const std::string_view mark : {",", ".", ";", ":"}) {
    if (token.size() == kSpaceMark.size() + 1 && token.starts_with(kSpaceMark) &&
        token.ends_with(mark)) {
      token = mark;
      break;
    }
  }
  if (const int byte = spelled_byte(token); byte >= 0) {
    std::string character;
    append_utf8(character, static_cast<uint32_t>(byte));
    return character;
  }
  // Every misspelling contains the byte 0xC3, which begins a character of U+00C0 to U+00FF.
  if (token.find('\xC3') != std::string::npos) {
    for (const Replacement& each : misspellings()) replace_all(token, each.broken, each.fixed);
  }
  if (token == "<|begin_of_text|>") return "<bos>";
  if (token == "<pad>") return "";
  return token;
}

// ---- CanonicalStrings

std::string_view CanonicalTokens::text(int32_t first, int32_t last) const {
  if (last - first == 1) return strings->ids().text(id[static_cast<size_t>(first)]);
  joined_.clear();
  for (int32_t n = first; n < last; ++n) {
    joined_ += strings->ids().text(id[static_cast<size_t>(n)]);
  }
  return joined_;
}

std::string_view CanonicalTokens::recanonical_text(int32_t first, int32_t last) const {
  if (last - first == 1) return strings->recanonical(id[static_cast<size_t>(first)]);
  joined_.clear();
  for (int32_t n = first; n < last; ++n)
    joined_ += strings->recanonical(id[static_cast<size_t>(n)]);
  return joined_;
}

size_t CanonicalTokens::recanonical_size(int32_t first, int32_t last) const {
  size_t size = 0;
  for (int32_t n = first; n < last; ++n)
    size += strings->recanonical(id[static_cast<size_t>(n)]).size();
  return size;
}

CanonicalStrings::CanonicalStrings() : canonical_(2048), pieces_(4096) {}

size_t CanonicalStrings::first_slot(std::string_view piece) const {
  return fold_product(reinterpret_cast<uintptr_t>(piece.data()), 0x9E3779B97F4A7C15) &
         (pieces_.size() - 1);
}

// Compares address and size, which identify a piece's text: pieces point into a tokenizer's table.
CanonicalStrings::CanonicalSlot& CanonicalStrings::slot_of(std::string_view piece) {
  const size_t mask = pieces_.size() - 1;
  size_t slot = first_slot(piece);
  while (pieces_[slot].data != nullptr &&
         (pieces_[slot].data != piece.data() || pieces_[slot].size != piece.size())) {
    slot = (slot + 1) & mask;
  }
  return pieces_[slot];
}

// Doubles the table, which is at most half full so that probes stay short.
void CanonicalStrings::grow() {
  const std::vector<CanonicalSlot> old =
      std::exchange(pieces_, std::vector<CanonicalSlot>(2 * pieces_.size()));
  for (const CanonicalSlot& each : old) {
    if (each.data != nullptr) slot_of({each.data, each.size}) = each;
  }
}

int32_t CanonicalStrings::intern(std::string_view canonical) {
  const int32_t id = canonical_.add(canonical);
  if (static_cast<size_t>(id) == recanonical_.size()) {
    recanonical_.push_back(canonical_token(canonical));
    bytes_.push_back(bytes_of(canonical));
    byte_count_.push_back(static_cast<uint8_t>(std::min<size_t>(bytes_.back().size(), 255)));
  }
  return id;
}

// Returns a copy, since the next call may move the table.
CanonicalStrings::CanonicalSlot CanonicalStrings::known_piece(std::string_view piece) {
  if (piece.empty()) return {.canonical = intern("")};  // may have no address
  CanonicalSlot& slot = slot_of(piece);
  if (slot.data != nullptr) return slot;
  const CanonicalSlot added = {piece.data(), static_cast<uint32_t>(piece.size()),
                               is_split_head(piece), intern(canonical_token(piece))};
  slot = added;
  if (2 * ++piece_count_ > pieces_.size()) grow();
  return added;
}

// Appends a maximal run of tokens whose characters all stand for bytes.
//   ends  one past the last piece of each token
void CanonicalStrings::push_run(CanonicalTokens& out, std::span<const int32_t> ids,
                                std::span<const int32_t> ends) {
  size_t count = 0;
  for (size_t i = 0; i < ids.size() && count <= kMostCharacterBytes; ++i) {
    count += byte_count_[static_cast<size_t>(ids[i])];
  }
  if (count >= 2 && count <= kMostCharacterBytes) {
    std::string bytes;
    for (const int32_t id : ids) bytes += bytes_[static_cast<size_t>(id)];
    const CodePoint point = read_utf8(bytes, 0);
    if (point.valid && point.size == bytes.size()) {
      const bool spaced = canonical_.text(ids[0]).starts_with(kSpaceMark);
      out.id.push_back(intern(std::string(spaced ? kSpaceMark : "") + bytes));
      out.begin.push_back(ends.back());
      return;
    }
  }
  out.id.insert(out.id.end(), ids.begin(), ids.end());
  out.begin.insert(out.begin.end(), ends.begin(), ends.end());
}

CanonicalTokens CanonicalStrings::tokens(std::span<const std::string_view> pieces) {
  std::vector<int32_t> ids, ends;  // after steps A and B
  ids.reserve(pieces.size());
  ends.reserve(pieces.size());
  for (size_t i = 0; i < pieces.size();) {
    if (i + kAhead < pieces.size()) __builtin_prefetch(&pieces_[first_slot(pieces[i + kAhead])]);
    const CanonicalSlot piece = known_piece(pieces[i++]);
    ids.push_back(piece.canonical);
    if (piece.is_head && i < pieces.size()) {
      const std::string joined = joined_split(pieces[i - 1], pieces[i]);
      if (!joined.empty()) {
        ids.back() = intern(canonical_token(joined));
        ++i;
      }
    }
    ends.push_back(static_cast<int32_t>(i));
  }

  CanonicalTokens out;
  out.strings = this;
  out.id.reserve(ids.size());
  out.begin.reserve(ids.size() + 1);
  out.begin.push_back(0);
  const auto is_bytes = [&](size_t n) { return byte_count_[static_cast<size_t>(ids[n])] > 0; };
  for (size_t n = 0; n < ids.size();) {
    size_t end = n;
    while (end < ids.size() && is_bytes(end)) ++end;
    if (end == n) {
      out.id.push_back(ids[n]);
      out.begin.push_back(ends[n]);
      ++n;
      continue;
    }
    push_run(out, std::span(ids).subspan(n, end - n), std::span(ends).subspan(n, end - n));
    n = end;
  }
  return out;
}

}  // namespace xrun
