#pragma once
// Tokens added to a vocabulary, which are looked for in a text before the model sees it.

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/text/tokenizer/aligned_text.h"
#include "core/text/tokenizer/normalizer.h"
#include "core/text/tokenizer/text_border.h"
#include "core/text/tokenizer/token_finder.h"

namespace xrun {

struct AddedToken {
  int32_t id = -1;
  std::string content;
  bool special = false;      // a piece of the format, never of the data
  bool normalized = true;    // looked for in the normalised text, in its own normalised form
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the spaces before it
  bool rstrip = false;       // and after it
};

// A found token and its bytes of the text, stripped spaces included.
struct AddedMatch {
  uint32_t begin;
  uint32_t end;
  int32_t id;
};

// Says where special tokens may stand: nowhere, anywhere, or inside some ranges of the input.
class SpecialRanges {
 public:
  explicit SpecialRanges(const EncodeOptions& options);
  bool none() const { return !all_ && runs_.empty(); }
  // Whether the whole range lies in one run of touching ranges.
  bool allow(ByteRange range) const;

 private:
  bool all_;
  std::vector<ByteRange> runs_;
};

// All added tokens of a tokenizer. Immutable, thread-safe.
class AddedTokens {
 public:
  AddedTokens() = default;
  AddedTokens(AddedTokens&&) = default;  // by_content_ has views into tokens_, which stay valid
  AddedTokens& operator=(AddedTokens&&) = default;
  // The normalizer (may be nullptr) gives the normalised forms.
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer);

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  const AddedToken* find(int32_t id) const;
  const AddedToken* find(std::string_view content) const;
  // Returns what decoding shows for an added token: its normalised form.
  const std::string& decoded(const AddedToken& token) const;

  // Returns what the pass over normalised text leaves of a border: all or nothing.
  Border border_after(Border border) const { return crosses_borders_ ? Border::kNone : border; }

  // Appends the longest tokens of one of the two passes from left to right, as Hugging Face finds
  // them: first the ones that are not normalised, in the input; then the others.
  void find_all(const AlignedText& text, bool normalized, const SpecialRanges& special,
                std::vector<AddedMatch>& out) const;

 private:
  // The tokens of one of the two passes.
  struct Pass {
    TokenFinder finder;
    bool has_plain = false;  // a token that is not special
  };
  void insert(Pass& pass, std::string_view form, int32_t token);

  std::vector<AddedToken> tokens_;
  std::vector<std::string> normal_forms_;  // one a token; the content where it is not normalised
  std::unordered_map<int32_t, size_t> by_id_;
  std::unordered_map<std::string_view, size_t> by_content_;
  Pass passes_[2];  // not normalised, normalised
  bool crosses_borders_ = false;
};

}  // namespace xrun
