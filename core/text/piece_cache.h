#pragma once
// A thread's own bounded memory of how short pieces were tokenised.

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

namespace xrun {

// Direct-mapped: a new piece replaces the one in its place. Never changes a result, only its cost.
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

  // Returns the place of a piece; holds(entry, piece) says whether it is there already.
  Entry& place(uint64_t hash) { return entries_[hash & (kEntries - 1)]; }
  static bool holds(const Entry& entry, std::string_view piece) {
    return size_t(entry.bytes[kMaxBytes]) == piece.size() &&
           std::memcmp(entry.bytes, piece.data(), piece.size()) == 0;
  }

 private:
  static constexpr size_t kEntries = 1 << 15;  // 2 MiB
  std::unique_ptr<Entry[]> entries_ = std::make_unique<Entry[]>(kEntries);
};

}  // namespace xrun
