// Ids are little-endian and have 16 bits if the vocabulary allows it. Flag i is bit i % 64 of word
// i / 64.

#include "core/data/cache/stored_row.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <utility>

#include "core/base/error.h"

namespace xrun {

namespace {

constexpr int64_t kNarrowVocabulary = 65536;  // ids below fit 16 bits
constexpr size_t kWord = 64;                  // flags per word

// Also finds the largest id, for the check against the model's vocabulary.
template <typename T>
void pack_ids(std::span<const int32_t> ids, StoredStream& out) {
  out.ids.resize(ids.size() * sizeof(T));
  char* at = out.ids.data();
  int32_t largest = -1;
  for (const int32_t id : ids) {
    const T value = static_cast<T>(id);
    std::memcpy(at, &value, sizeof(T));
    at += sizeof(T);
    largest = std::max(largest, id);
  }
  out.largest_id = largest;
}

// Packs eight bytes of 0 or 1 into eight bits, the first byte into the lowest.
// The term 2^(56 - 7 i) of the factor moves byte i's flag to bit 56 + i; no two of the products
// meet below bit 64, so nothing carries.
uint64_t bits_of(uint64_t flags) { return (flags * 0x0102040810204080ULL) >> 56; }

void pack_bits(std::span<const uint8_t> flags, StoredStream& out) {
  out.bits.resize((flags.size() + kWord - 1) / kWord);
  out.trained = 0;
  for (size_t w = 0; w < out.bits.size(); ++w) {
    const size_t count = std::min(kWord, flags.size() - w * kWord);
    uint8_t bytes[kWord] = {};
    // The last word is padded with zeros, which push_bits requires.
    std::memcpy(bytes, flags.data() + w * kWord, count);
    uint64_t word = 0;
    for (size_t i = 0; i < kWord; i += 8) {
      uint64_t eight = 0;
      std::memcpy(&eight, bytes + i, sizeof(eight));
      word |= bits_of(eight) << i;
    }
    out.bits[w] = word;
    out.trained += std::popcount(word);
  }
}

}  // namespace

ColumnType id_type(const RowSchema& schema) {
  return schema.vocab_size <= kNarrowVocabulary ? ColumnType::kU16 : ColumnType::kU32;
}

// Called by the workers, so that the thread that writes only appends bytes.
void store_row(EncodedRow&& row, ColumnType ids, StoredRow& out) {
  for (size_t s = 0; s < row.streams.size(); ++s) {
    TokenStream& from = row.streams[s];
    StoredStream& to = out.streams[s];
    XRUN_CHECK(from.trained.size() == from.ids.size(),
               "a stream has {} tokens and {} trained flags", from.ids.size(), from.trained.size());
    if (ids == ColumnType::kU16) {
      pack_ids<uint16_t>(from.ids, to);
    } else {
      pack_ids<uint32_t>(from.ids, to);
    }
    pack_bits(from.trained, to);
    to.weights = std::move(from.weights);
    to.tokens = static_cast<int64_t>(from.ids.size());
  }
  static_cast<RowFacts&>(out) = std::move(row);
}

}  // namespace xrun
