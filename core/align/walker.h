#pragma once
// The byte walker: the finest pairs of spans of two tokenisations that end at the same bytes.
//
// Both sides are read as positions in one text. A pair ends wherever both have a token boundary, so
// the alignment is exact and the finest possible, and takes time linear in the tokens. Exchanging
// the sides changes only the order of neighbouring orphans: the student's come first.
// Special tokens have no bytes; if both sides are at the same byte, their runs pair by role
// (special_roles.h). Any other token without bytes joins the pair that follows it. A token without
// a partner is an orphan, a pair by itself that is not correct.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/align/alignment.h"
#include "core/align/token_table.h"

namespace xrun {

struct WalkOptions {
  bool pair_specials = true;  // false: every special token is an orphan
  int32_t max_span = 0;       // tokens of a side; a longer pair is not correct; 0: no limit
  // The ids begin a text, so the space that a tokenizer puts before it is not part of the text.
  bool begins_text = true;
};

// Why a walk left tokens unaligned.
struct WalkFindings {
  // The first byte at which the two sides spell different texts; -1 if there is none. If a pair
  // holds this byte it is not correct; all tokens after it are orphans.
  int64_t differs_at = -1;
  int64_t long_pairs = 0;  // pairs beyond WalkOptions::max_span
};

// Memory for an array that is filled again and again.
template <class T>
class ReusedBuffer {
 public:
  // Returns room for `size` values; the first `kept` ones stay.
  T* get(size_t size, size_t kept = 0) {
    if (size > capacity_) {
      capacity_ = size + size / 2;
      std::unique_ptr<T[]> larger(new T[capacity_]);
      std::copy_n(data_.get(), kept, larger.get());
      data_ = std::move(larger);
    }
    return data_.get();
  }
  T* data() const { return data_.get(); }

 private:
  std::unique_ptr<T[]> data_;
  size_t capacity_ = 0;
};

// A tokenisation as the walker reads it.
struct WalkSide {
  ReusedBuffer<uint32_t> ends;    // by token: bytes of the text up to its end
  std::vector<int32_t> specials;  // indices of special tokens, which cover no text
  std::vector<int32_t> covering;  // indices of special tokens that cover text: unknown characters
  ReusedBuffer<char> bytes;       // the text, if it was spelled
  uint32_t size = 0;              // of the text, in bytes
};

// Walks one document after the other with the same buffers. Not thread-safe: one per thread.
class Walker {
 public:
  explicit Walker(WalkOptions options = {}) : options_(options) {}

  // Aligns ids by the bytes of their pieces. The result is valid until the next call. Throws Error
  // if a side has more than 2 GiB of text or 128 Mi tokens.
  std::span<const AlignedPair> walk(const TokenTable& s, std::span<const int32_t> ids_s,
                                    const TokenTable& t, std::span<const int32_t> ids_t);
  // Aligns two encodings of `text`, by bytes if the pieces of both sides spell it, otherwise by
  // offsets. Offsets are exact whatever a tokenizer does to the text, but may leave several tokens
  // in one pair. An unknown token pairs correctly only with one of the same role. Throws Error as
  // above, and if a side does not have one offset per token.
  std::span<const AlignedPair> walk(std::string_view text, const TokenTable& s,
                                    const Encoding& encoding_s, const TokenTable& t,
                                    const Encoding& encoding_t);
  // Aligns two encodings by their offsets alone.
  std::span<const AlignedPair> walk(const TokenTable& s, const Encoding& encoding_s,
                                    const TokenTable& t, const Encoding& encoding_t);
  // Returns the findings of the last walk.
  const WalkFindings& findings() const { return findings_; }

 private:
  struct Sides;  // the tables and ids of a walk
  struct Position {
    int32_t i = 0, j = 0;           // the next tokens to read
    int32_t s0 = 0, t0 = 0;         // the first tokens that are in no pair yet
    uint32_t mark = 0;              // the byte at which the last pair ends
    size_t next_s = 0, next_t = 0;  // entries of the next special tokens in WalkSide::specials
  };

  std::span<const AlignedPair> pair_up(const Sides& sides, uint32_t differs_at);
  void walk_content(Position& at, int32_t s_end, int32_t t_end);
  void walk_specials(Position& at, const Sides& sides);
  void drop_after(Position& at, size_t first, uint32_t differs_at);
  void add_orphans(int32_t s_begin, int32_t s_end, int32_t t_begin, int32_t t_end);
  void mark_covering(const Sides& sides);
  void limit_spans();

  WalkOptions options_;
  WalkFindings findings_;
  WalkSide s_, t_;
  ReusedBuffer<AlignedPair> pairs_;
  size_t count_ = 0;  // of pairs
  Alignment special_pairs_;
};

// Return Walker::walk() of one document.
Alignment walk_tokens(const TokenTable& s, std::span<const int32_t> ids_s, const TokenTable& t,
                      std::span<const int32_t> ids_t, const WalkOptions& options = {},
                      WalkFindings* findings = nullptr);

// An encoding of a text, and the table of its tokenizer.
struct EncodedSide {
  const TokenTable& table;
  const Encoding& encoding;
};
Alignment walk_tokens(std::string_view text, const EncodedSide& s, const EncodedSide& t,
                      const WalkOptions& options = {}, WalkFindings* findings = nullptr);

// Returns the alignment of a sequence with itself: one correct pair per token.
Alignment identity_alignment(int64_t tokens);

}  // namespace xrun
