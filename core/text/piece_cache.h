#pragma once
// A thread's own bounded memory of how short pieces were tokenised.

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "core/text/zeroed_buffer.h"

namespace xrun {

// Two places for a piece: a new one takes the first and pushes what was there into the second.
// Never changes a result, only its cost.
class PieceCache {
 public:
  static constexpr size_t kMaxBytes = 23;  // of a piece
  static constexpr size_t kMaxTokens = 6;
  struct Entry {  // one cache line
    char bytes[kMaxBytes + 1];     // the last one is the piece's size; 0: empty
    int32_t ids[kMaxTokens];
    uint8_t sizes[kMaxTokens];     // bytes of each token
    uint8_t count;
    uint8_t unused[9];
  };
  static_assert(sizeof(Entry) == 64);

  // Returns the calling thread's cache of the model with this serial number. Each thread keeps the
  // caches of the last few models that it used.
  static PieceCache& of(uint64_t serial);

  // Returns the entry of a piece of 1 to kMaxBytes bytes, or nullptr.
  const Entry* find(std::string_view piece, uint64_t hash) const {
    const Entry* places = places_of(hash);
    if (holds(places[0], piece)) return places;
    return holds(places[1], piece) ? places + 1 : nullptr;
  }
  // Returns the entry in which the caller writes down a piece that was not found.
  Entry& renew(uint64_t hash) {
    Entry* places = places_of(hash);
    places[1] = places[0];
    return places[0];
  }

 private:
  static constexpr size_t kEntries = 1 << 16;  // 4 MiB
  Entry* places_of(uint64_t hash) const { return buffer_.as<Entry>() + (hash & (kEntries - 2)); }
  static bool holds(const Entry& entry, std::string_view piece) {
    return size_t(entry.bytes[kMaxBytes]) == piece.size() &&
           std::memcmp(entry.bytes, piece.data(), piece.size()) == 0;
  }
  ZeroedBuffer buffer_{kEntries * sizeof(Entry)};
};

}  // namespace xrun
