#pragma once
// A bounded cache of the tokens of short pieces, one per thread and model.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/text/tokenizer/piece_hash.h"
#include "core/text/tokenizer/token_model.h"
#include "core/text/tokenizer/zeroed_buffer.h"

namespace xrun {

// Two-way buckets: a new piece takes the first entry and moves the old one to the second. The cache
// changes only the cost of a result.
class PieceCache {
 public:
  static constexpr size_t kMaxBytes = 23;  // of a piece
  static constexpr size_t kMaxTokens = 6;
  struct CachedPiece {          // one cache line
    char bytes[kMaxBytes + 1];  // the last one is the piece's size; 0: empty
    int32_t ids[kMaxTokens];
    uint8_t sizes[kMaxTokens];  // bytes of each token
    uint8_t count;
    uint8_t unused[9];

    // Appends the tokens of the piece at `begin`.
    void append_to(std::vector<ModelToken>& out, uint32_t begin) const {
      for (int i = 0; i < count; ++i) {
        out.push_back({ids[i], begin, begin + sizes[i]});
        begin += sizes[i];
      }
    }
  };
  static_assert(sizeof(CachedPiece) == 64);

  // Returns a serial number unique in the process.
  static uint64_t next_serial();
  // Returns the calling thread's cache of the model with this serial number. Each thread keeps
  // four; a fifth replaces the oldest.
  static PieceCache& of(uint64_t serial);

  // Appends the tokens of each piece of `text`, in order. A piece that is not in the cache gets the
  // tokens that cut(piece, tokens) appends to an empty list, with ranges in the piece.
  template <class Cut>
  void tokenize(std::string_view text, std::span<const ByteRange> pieces,
                std::vector<ModelToken>& out, Cut cut) {
    thread_local std::vector<ModelToken> tokens;
    for (size_t first = 0; first < pieces.size(); first += kAhead) {
      const auto some = pieces.subspan(first, std::min(kAhead, pieces.size() - first));
      uint64_t hashes[kAhead];
      for (size_t i = 0; i < some.size(); ++i) {
        if (size_of(some[i]) > kMaxBytes) continue;
        hashes[i] = hash_piece(piece_of(text, some[i]));
        __builtin_prefetch(bucket_of(hashes[i]));
      }
      for (size_t i = 0; i < some.size(); ++i) {
        const uint32_t begin = some[i].begin;
        const std::string_view piece = piece_of(text, some[i]);
        const bool is_short = piece.size() <= kMaxBytes;
        const CachedPiece* entry = is_short ? find(piece, hashes[i]) : nullptr;
        if (entry != nullptr) {
          entry->append_to(out, begin);
          continue;
        }
        tokens.clear();
        cut(piece, tokens);
        if (is_short) store(piece, hashes[i], tokens);
        for (const ModelToken& t : tokens) out.push_back({t.id, begin + t.begin, begin + t.end});
      }
    }
  }

 private:
  static constexpr size_t kEntries = 1 << 17;  // 8 MiB
  // Pieces hashed before the first look-up: the table exceeds the second-level cache, and its lines
  // arrive while the other pieces are hashed.
  static constexpr size_t kAhead = 16;

  static size_t size_of(ByteRange range) { return range.end - range.begin; }
  static std::string_view piece_of(std::string_view text, ByteRange range) {
    return {text.data() + range.begin, size_of(range)};
  }
  // Returns the entry of a piece of 1 to kMaxBytes bytes, or nullptr.
  const CachedPiece* find(std::string_view piece, uint64_t hash) const {
    const CachedPiece* bucket = bucket_of(hash);
    if (holds(bucket[0], piece)) return bucket;
    return holds(bucket[1], piece) ? bucket + 1 : nullptr;
  }
  // Stores the tokens of a new piece if they fit and tile it.
  void store(std::string_view piece, uint64_t hash, const std::vector<ModelToken>& tokens);
  CachedPiece& renew(uint64_t hash) {
    CachedPiece* bucket = bucket_of(hash);
    bucket[1] = bucket[0];
    return bucket[0];
  }
  CachedPiece* bucket_of(uint64_t hash) const {
    return buffer_.as<CachedPiece>() + (hash & (kEntries - 2));
  }
  static bool holds(const CachedPiece& entry, std::string_view piece) {
    return size_t(entry.bytes[kMaxBytes]) == piece.size() &&
           equal_bytes(entry.bytes, piece.data(), piece.size());
  }

  ZeroedBuffer buffer_{kEntries * sizeof(CachedPiece)};
};

}  // namespace xrun
