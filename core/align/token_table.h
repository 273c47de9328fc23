#pragma once
// The exact bytes of every token of a vocabulary, decoded once, and the roles of special tokens.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/align/special_roles.h"
#include "core/text/tokenizer/token_bytes.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

// Immutable, thread-safe; needs the tokenizer only while it is made.
class TokenTable {
 public:
  explicit TokenTable(const Tokenizer& tokenizer);

  // Returns the largest id + 1. All functions also take larger and negative ids, as ids without a
  // piece: an embedding may have rows beyond the vocabulary.
  int64_t size() const { return int64_t(role_.size()) - 1; }
  // Returns the bytes that a token adds after other tokens (" the", "\xE6\x97"); "" for a special
  // token and for an id without a piece. Valid as long as the table.
  std::string_view bytes(int32_t id) const {
    const size_t row = row_of(id);
    return {bytes_.data() + begin_[row], begin_[row + 1] - begin_[row]};
  }
  int32_t length(int32_t id) const { return int32_t(bytes(id).size()); }

  // Returns the first role of a special token (special_roles.h), -1 for content, which has bytes,
  // and kNoPiece for an id without a piece. Special tokens of one role mean the same.
  static constexpr int32_t kNoPiece = -2;
  int32_t role(int32_t id) const { return role_[row_of(id)]; }
  // Returns all roles of a special token, nullptr for any other id: bos, eos, pad, unk, sep, cls
  // and mask as the tokenizer's files name them, and last the token's spelling.
  const SpecialRoles* roles(int32_t id) const;

  // Returns true if the pieces spell the bytes of every text; false if a stage of the tokenizer
  // changes or drops characters (NFC, lower case). Aligning ids is then exact only for texts that
  // this stage leaves alone.
  bool exact() const { return spelling_.exact; }
  const TextSpelling& spelling() const { return spelling_; }
  // Returns true for a token that the tokenizer itself adds before a text (BOS).
  bool is_leading(int32_t id) const;
  // Returns true if the tokenizer adds its space before a text again after this token.
  bool restarts(int32_t id) const { return (flags_[row_of(id)] & kRestarts) != 0; }

  // A token in the form that the walker reads: up to kShort bytes, and their number. The number is
  // kOther for all others: special and longer tokens, those that restart, ids without a piece.
  static constexpr uint8_t kShort = 15, kOther = 255;
  struct ShortToken {
    char bytes[kShort];
    uint8_t length;
  };
  // Returns size() + 1 entries; the last one is for all other ids.
  const ShortToken* short_tokens() const { return short_.data(); }

 private:
  static constexpr uint8_t kRestarts = 1, kLeads = 2;
  size_t row_of(int32_t id) const {
    // The last row, which is empty, stands for all other ids.
    return uint32_t(id) < role_.size() ? size_t(id) : role_.size() - 1;
  }
  void add_special(int32_t id, SpecialRoles roles);
  void add_short(size_t row);

  TextSpelling spelling_;
  std::string bytes_;            // of all tokens, one after the other
  std::vector<uint32_t> begin_;  // by row, with one entry at the end
  std::vector<int32_t> role_;    // by row
  std::vector<uint8_t> flags_;   // by row
  std::vector<ShortToken> short_;
  std::unordered_map<int32_t, SpecialRoles> roles_;
};

}  // namespace xrun
