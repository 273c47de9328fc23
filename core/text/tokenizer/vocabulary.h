#pragma once
// The pieces of a vocabulary and their ids, in one arena with one hash table.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/tokenizer/piece_hash.h"
#include "core/text/tokenizer/zeroed_buffer.h"

namespace xrun {

// The treatment of a piece that appears under two ids.
enum class Repeats { kError, kLastOneWins };

// Pieces by id and ids by piece. Filled once, then immutable and thread-safe.
class Vocabulary {
 public:
  static constexpr int64_t kMaxId = (1 << 23) - 1;  // beyond every known model, and 100 MB at most

  void reserve(size_t pieces, size_t bytes);
  // Adds a piece; finish() makes it visible. Requires 0 <= id <= kMaxId.
  void add(std::string_view piece, int32_t id);
  // Builds the tables. Throws Error starting with `where` if two entries share an id or, with
  // kError, a piece.
  void finish(const std::string& where, Repeats repeats = Repeats::kError);

  // size() is the largest id + 1, count() the number of entries.
  int64_t size() const { return int64_t(spans_.size()); }
  int64_t count() const { return count_; }
  std::optional<int32_t> find(std::string_view piece) const {
    return find(piece, hash_piece(piece));
  }
  std::optional<int32_t> find(std::string_view piece, uint64_t hash) const;
  // Prefetch the three reads of find(), in this order: the slot, its span, the bytes of the span.
  void prefetch(uint64_t hash) const { __builtin_prefetch(&slots_[hash & mask_]); }
  void prefetch_span(uint64_t hash) const {
    const int32_t next_id = slots_[hash & mask_].next_id;
    if (next_id > 0) __builtin_prefetch(&spans_[size_t(next_id - 1)]);
  }
  void prefetch_bytes(uint64_t hash) const {
    const int32_t next_id = slots_[hash & mask_].next_id;
    if (next_id > 0) __builtin_prefetch(arena_.data() + spans_[size_t(next_id - 1)].begin);
  }
  // Returns the spelling of an id, "" for an id without a piece. Requires 0 <= id < size().
  std::string_view piece(int32_t id) const {
    const PieceSpan span = spans_[size_t(id)];
    return {arena_.data() + span.begin, span.size};
  }
  bool has(int32_t id) const { return id >= 0 && id < size() && spans_[size_t(id)].size != kNone; }

 private:
  static constexpr uint32_t kNone = 0;  // the size of an absent piece, or of an empty one
  struct PieceSpan {
    uint32_t begin = 0;
    uint32_t size = kNone;
  };
  struct PieceEntry {
    PieceSpan span;
    int32_t id;
  };
  struct PieceSlot {
    uint32_t tag;     // high bits of the hash
    int32_t next_id;  // the id + 1; 0: empty
  };
  void insert(const PieceEntry& entry, uint64_t hash, const std::string& where, Repeats repeats);

  std::string arena_;
  std::vector<PieceEntry> entries_;  // until finish()
  std::vector<PieceSpan> spans_;     // by id
  ZeroedBuffer buffer_;
  PieceSlot* slots_ = nullptr;  // in the buffer: open addressing, at most three quarters full
  uint64_t mask_ = 0;
  int64_t count_ = 0;
};

// Reads {"piece": id, ...} from text followed by kJsonPadding readable bytes. Throws Error starting
// with `where` if an id or a piece is wrong, and simdjson_error if the text is not such an object.
Vocabulary read_vocabulary(std::string_view json, const std::string& where);

// Throws Error saying that a text needs the unknown token, which the vocabulary lacks.
[[noreturn]] void throw_no_unknown_token(const std::string& unk_token);

}  // namespace xrun
