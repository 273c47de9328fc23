// Each thread's table of caches, and the rule for pieces that may be cached.

#include "core/text/tokenizer/piece_cache.h"

#include <array>
#include <atomic>
#include <cstring>
#include <memory>

namespace xrun {

uint64_t PieceCache::next_serial() {
  static std::atomic<uint64_t> next{1};
  return next++;
}

PieceCache& PieceCache::of(uint64_t serial) {
  struct Owned {
    uint64_t serial = 0;  // 0: none
    std::unique_ptr<PieceCache> cache;
  };
  // A distillation has two tokenizers; beyond four the oldest cache is dropped.
  thread_local std::array<Owned, 4> caches;
  thread_local size_t oldest = 0;
  // Found by number, not by address: a new model may get the address of one that is gone.
  for (Owned& owned : caches) {
    if (owned.serial == serial) return *owned.cache;
  }
  Owned& owned = caches[oldest];
  oldest = (oldest + 1) % caches.size();
  owned.cache = std::make_unique<PieceCache>();
  owned.serial = serial;
  return *owned.cache;
}

void PieceCache::store(std::string_view piece, uint64_t hash,
                       const std::vector<ModelToken>& tokens) {
  // An entry stores sizes, not positions: the tokens must tile the piece. Dropped unknown
  // characters leave gaps, and such a piece is cut every time.
  if (tokens.size() > kMaxTokens) return;
  uint32_t at = 0;
  for (const ModelToken& token : tokens) {
    if (token.begin != at) return;
    at = token.end;
  }
  if (at != piece.size()) return;
  CachedPiece& entry = renew(hash);
  std::memcpy(entry.bytes, piece.data(), piece.size());
  entry.bytes[kMaxBytes] = char(piece.size());
  entry.count = uint8_t(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    entry.ids[i] = tokens[i].id;
    entry.sizes[i] = uint8_t(tokens[i].end - tokens[i].begin);
  }
}

}  // namespace xrun
