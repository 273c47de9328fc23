#pragma once
// Token strings in the canonical form that NeMo-RL's aligner compares, its defects included.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/align/string_ids.h"

namespace xrun {

// Returns the canonical form of one piece: blanks, newlines and known misspellings unified. Not
// idempotent: "<0x20>" gives " ", which gives "Ġ".
std::string canonical_token(std::string_view piece);

class CanonicalStrings;

// The canonical tokens of one sequence of N tokens, made of one or several pieces each.
struct CanonicalTokens {
  const CanonicalStrings* strings = nullptr;  // which made this
  std::vector<int32_t> id;                    // [N] equal strings have equal ids, on both sides
  std::vector<int32_t> begin;  // [N + 1] token n stands for the pieces [begin[n], begin[n + 1])

  int32_t size() const { return static_cast<int32_t>(id.size()); }
  // Returns tokens [first, last) joined; valid until the next call for this sequence.
  std::string_view text(int32_t first, int32_t last) const;
  // Returns tokens [first, last) joined after passing each through canonical_token() a second time.
  std::string_view recanonical_text(int32_t first, int32_t last) const;
  size_t recanonical_size(int32_t first, int32_t last) const;  // of recanonical_text

  size_t text_size(int32_t n) const;  // of text(n, n + 1)

  // Calls f(k, size of text(end - k, end)) for k from 2 to `most`.
  template <class F>
  void each_joined(int32_t end, int32_t most, const F& f) const;

 private:
  mutable std::string joined_;
};

// The interned strings of two vocabularies. Each distinct piece is made canonical once. The pieces
// of every call must outlive this at the same addresses: equal addresses count as equal pieces.
class CanonicalStrings {
 public:
  CanonicalStrings();
  // Returns the canonical tokens of a sequence of pieces.
  CanonicalTokens tokens(std::span<const std::string_view> pieces);
  const StringIds& ids() const { return canonical_; }
  // Returns canonical_token() of the canonical string of an id.
  const std::string& recanonical(int32_t id) const { return recanonical_[static_cast<size_t>(id)]; }

 private:
  struct CanonicalSlot {
    const char* data = nullptr;  // nullptr: empty
    uint32_t size : 31 = 0;
    uint32_t is_head : 1 = 0;  // may be the first of two pieces that spell one character
    int32_t canonical = -1;
  };
  CanonicalSlot known_piece(std::string_view piece);
  size_t first_slot(std::string_view piece) const;
  CanonicalSlot& slot_of(std::string_view piece);
  void grow();
  int32_t intern(std::string_view canonical);
  void push_run(CanonicalTokens& out, std::span<const int32_t> ids, std::span<const int32_t> ends);

  StringIds canonical_;
  // By canonical id. bytes_ has the string without its leading "Ġ"s as bytes, if each of its
  // characters stands for one.
  std::vector<std::string> recanonical_, bytes_;
  std::vector<uint8_t> byte_count_;  // size of bytes_, at most 255; 0: some character is no byte
  // A hash table by the address of a piece, at most half full: a tokenizer has one address for each
  // id, and addresses compare faster than strings.
  std::vector<CanonicalSlot> pieces_;
  size_t piece_count_ = 0;
};

inline size_t CanonicalTokens::text_size(int32_t n) const {
  return strings->ids().text(id[static_cast<size_t>(n)]).size();
}

template <class F>
void CanonicalTokens::each_joined(int32_t end, int32_t most, const F& f) const {
  if (most < 2) return;
  size_t size = text_size(end - 1);
  for (int32_t k = 2; k <= most; ++k) {
    size += text_size(end - k);
    f(k, size);
  }
}

}  // namespace xrun
