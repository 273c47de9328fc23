#pragma once
// Tokens added to a vocabulary, which are found in a text before the model sees it.

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/json.h"
#include "core/text/tokenizer/aligned_text.h"
#include "core/text/tokenizer/normalizers.h"
#include "core/text/tokenizer/safe_split.h"
#include "core/text/tokenizer/token_finder.h"
#include "core/text/tokenizer/vocabulary.h"

namespace xrun {

struct AddedToken {
  int32_t id = -1;
  std::string content;
  bool special = false;      // a piece of the format, never of the data
  bool normalized = true;    // matches the normalised text, in its own normalised form
  bool single_word = false;  // matches only where no word character is adjacent
  bool lstrip = false;       // takes the spaces before it
  bool rstrip = false;       // takes the spaces after it
};

// A token found in a text, and its byte range with the spaces that it strips.
struct AddedMatch {
  uint32_t begin;
  uint32_t end;
  int32_t id;
};

// The ranges of the input in which special tokens may match: none, all, or some.
class SpecialRanges {
 public:
  explicit SpecialRanges(const EncodeOptions& options);
  bool none() const { return !all_ && runs_.empty(); }
  // Returns true if one run of touching ranges contains the whole range.
  bool allow(ByteRange range) const;

 private:
  bool all_;
  std::vector<ByteRange> runs_;
};

// All added tokens of a tokenizer. Immutable, thread-safe.
class AddedTokens {
 public:
  AddedTokens() = default;
  AddedTokens(AddedTokens&&) = default;  // by_content_ views tokens_, which a move keeps valid
  AddedTokens& operator=(AddedTokens&&) = default;
  // `normalizer` may be nullptr.
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer);

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  const AddedToken* find(int32_t id) const;
  const AddedToken* find(std::string_view content) const;
  // Returns the decoded text of an added token: its normalised form, as in transformers.
  const std::string& decoded(const AddedToken& token) const;

  // Returns the split point after the pass over normalised text: unchanged or none.
  SafeSplit split_after(SafeSplit split) const {
    return crosses_splits_ ? SafeSplit::kNone : split;
  }

  // Appends the leftmost-longest matches of one of Hugging Face's two passes, from left to right:
  // tokens that match the input if `normalized` is false, else those that match normalised text.
  void find_all(const AlignedText& text, bool normalized, const SpecialRanges& special,
                std::vector<AddedMatch>& out) const;

 private:
  struct TokenPass {
    TokenFinder finder;
    bool has_plain = false;  // a token that is not special
  };
  void insert(TokenPass& pass, std::string_view form, int32_t token);

  std::vector<AddedToken> tokens_;
  std::vector<std::string> normal_forms_;  // one per token; the content if it is not normalised
  std::unordered_map<int32_t, size_t> by_id_;
  std::unordered_map<std::string_view, size_t> by_content_;
  TokenPass passes_[2];  // by AddedToken::normalized
  bool crosses_splits_ = false;
};

// Reads an added token from its object or plain string. Throws Error starting with `where`.
AddedToken read_added_token(const Json& json, const std::string& where);

// The Python package `tokenizers` numbers the added tokens that are not in the vocabulary
// consecutively after it, whatever ids tokenizer.json gives them; xrun keeps the file's ids.
// Returns a sentence naming the first token (in the file's order) whose ids differ, or "".
std::string package_numbering(const std::vector<AddedToken>& added, const Vocabulary& vocabulary);

}  // namespace xrun
