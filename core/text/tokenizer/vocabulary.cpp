// An arena of spellings, spans by id, and an open-addressing table of (hash tag, id).

#include "core/text/tokenizer/vocabulary.h"

#include <simdjson.h>

#include <algorithm>
#include <bit>

#include "core/base/error.h"

namespace xrun {

namespace {

// Requires that one of them is not empty.
bool same_piece(std::string_view a, std::string_view b) {
  return a.size() == b.size() && equal_bytes(a.data(), b.data(), a.size());
}

}  // namespace

void Vocabulary::reserve(size_t pieces, size_t bytes) {
  entries_.reserve(pieces);
  arena_.reserve(bytes);
}

void Vocabulary::add(std::string_view piece, int32_t id) {
  entries_.push_back({{uint32_t(arena_.size()), uint32_t(piece.size())}, id});
  arena_.append(piece);
}

void Vocabulary::finish(const std::string& where, Repeats repeats) {
  // A span has 32 bits.
  XRUN_CHECK(arena_.size() < UINT32_MAX, "{}: {} bytes of pieces are too many", where,
             arena_.size());
  int32_t last = -1;
  for (const PieceEntry& entry : entries_) last = std::max(last, entry.id);
  // Ids may have gaps.
  spans_.assign(size_t(last + 1), PieceSpan{});
  // At most three quarters full, so that probes stay short.
  const size_t slots = std::bit_ceil(std::max<size_t>(16, entries_.size() * 4 / 3));
  buffer_ = ZeroedBuffer(slots * sizeof(PieceSlot));
  slots_ = buffer_.as<PieceSlot>();
  mask_ = slots - 1;
  // The table exceeds a core's cache, so a block is hashed first: its slots arrive meanwhile.
  constexpr size_t kBlock = 32;
  uint64_t hashes[kBlock];
  for (size_t begin = 0; begin < entries_.size(); begin += kBlock) {
    const size_t size = std::min(kBlock, entries_.size() - begin);
    for (size_t i = 0; i < size; ++i) {
      const PieceSpan span = entries_[begin + i].span;
      hashes[i] = hash_piece({arena_.data() + span.begin, span.size});
      prefetch(hashes[i]);
    }
    for (size_t i = 0; i < size; ++i) insert(entries_[begin + i], hashes[i], where, repeats);
  }
  count_ = int64_t(entries_.size());
  entries_ = {};
}

void Vocabulary::insert(const PieceEntry& entry, uint64_t hash, const std::string& where,
                        Repeats repeats) {
  const std::string_view spelling(arena_.data() + entry.span.begin, entry.span.size);
  if (spelling.empty()) return;  // no text contains it: an id without a piece
  PieceSpan& span = spans_[size_t(entry.id)];
  XRUN_CHECK(span.size == kNone, "{}: id {} belongs to two pieces, \"{}\" and \"{}\"", where,
             entry.id, piece(entry.id), spelling);
  // The low bits choose the slot; the high ones are compared before any spelling is fetched.
  const uint32_t tag = uint32_t(hash >> 32);
  uint64_t at = hash & mask_;
  for (; slots_[at].next_id > 0; at = (at + 1) & mask_) {
    const int32_t id = slots_[at].next_id - 1;
    if (slots_[at].tag != tag || !same_piece(piece(id), spelling)) continue;
    if (repeats == Repeats::kLastOneWins) break;
    XRUN_CHECK(false, "{}: the piece \"{}\" appears twice, as ids {} and {}", where, spelling, id,
               entry.id);
  }
  // The id plus 1: memory of zeros is an empty table.
  slots_[at] = {tag, entry.id + 1};
  span = entry.span;
}

std::optional<int32_t> Vocabulary::find(std::string_view piece, uint64_t hash) const {
  if (slots_ == nullptr) return {};
  const uint32_t tag = uint32_t(hash >> 32);
  for (uint64_t at = hash & mask_; slots_[at].next_id > 0; at = (at + 1) & mask_) {
    const int32_t id = slots_[at].next_id - 1;
    if (slots_[at].tag == tag && same_piece(this->piece(id), piece)) return id;
  }
  return {};
}

Vocabulary read_vocabulary(std::string_view json, const std::string& where) {
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document = parser.iterate(padded(json));
  Vocabulary vocabulary;
  // An estimate: an entry takes some 16 bytes.
  vocabulary.reserve(json.size() / 16, json.size());
  for (auto field : document.get_object()) {
    const std::string_view piece = field.unescaped_key();
    int64_t id = 0;
    const auto error = field.value().get_int64().get(id);
    XRUN_CHECK(error == simdjson::SUCCESS, "{}: the id of \"{}\" is not an integer", where, piece);
    XRUN_CHECK(id >= 0 && id <= Vocabulary::kMaxId, "{}: the id of \"{}\" is {}, wanted 0 to {}",
               where, piece, id, Vocabulary::kMaxId);
    vocabulary.add(piece, int32_t(id));
  }
  vocabulary.finish(where);
  return vocabulary;
}

void throw_no_unknown_token(const std::string& unk_token) {
  throw Error(fmt::format(
      "the tokenizer's unknown token \"{}\" is not in its vocabulary, but a text needs it",
      unk_token));
}

}  // namespace xrun
