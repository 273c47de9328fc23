#pragma once
// A thread's own bounded memory of how short pieces were tokenised.

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "core/text/token_model.h"
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

    // Appends the tokens of the piece, which begins at `begin`.
    void append_to(std::vector<ModelToken>& out, uint32_t begin) const {
      for (int i = 0; i < count; ++i) {
        out.push_back({ids[i], begin, begin + sizes[i]});
        begin += sizes[i];
      }
    }
  };
  static_assert(sizeof(Entry) == 64);

  // Returns a serial number that no other model of the process has.
  static uint64_t next_serial();
  // Returns the calling thread's cache of the model with this serial number. Each thread keeps the
  // caches of the last few models that it used.
  static PieceCache& of(uint64_t serial);

  // Returns the entry of a piece of 1 to kMaxBytes bytes, or nullptr.
  const Entry* find(std::string_view piece, uint64_t hash) const {
    const Entry* places = places_of(hash);
    if (holds(places[0], piece)) return places;
    return holds(places[1], piece) ? places + 1 : nullptr;
  }
  // Remembers the tokens of a piece that was not found, where they fit and tile it. A token has id,
  // begin and end, in bytes of the piece.
  template <class Token>
  void keep(std::string_view piece, uint64_t hash, const std::vector<Token>& tokens) {
    if (tokens.size() > kMaxTokens) return;
    uint32_t at = 0;
    for (const Token& token : tokens) {
      if (token.begin != at) return;
      at = token.end;
    }
    if (at != piece.size()) return;
    Entry& entry = renew(hash);
    std::memcpy(entry.bytes, piece.data(), piece.size());
    entry.bytes[kMaxBytes] = char(piece.size());
    entry.count = uint8_t(tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
      entry.ids[i] = tokens[i].id;
      entry.sizes[i] = uint8_t(tokens[i].end - tokens[i].begin);
    }
  }

 private:
  static constexpr size_t kEntries = 1 << 16;  // 4 MiB
  Entry& renew(uint64_t hash) {
    Entry* places = places_of(hash);
    places[1] = places[0];
    return places[0];
  }
  Entry* places_of(uint64_t hash) const { return buffer_.as<Entry>() + (hash & (kEntries - 2)); }
  static bool holds(const Entry& entry, std::string_view piece) {
    return size_t(entry.bytes[kMaxBytes]) == piece.size() &&
           std::memcmp(entry.bytes, piece.data(), piece.size()) == 0;
  }
  ZeroedBuffer buffer_{kEntries * sizeof(Entry)};
};

}  // namespace xrun
