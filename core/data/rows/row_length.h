#pragma once
// Limits on the length of a row: max_length in tokens, and the most text that a tokenizer takes at
// once.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/rows/data_fault.h"
#include "core/data/rows/ledger.h"
#include "core/data/rows/row_encoder.h"

namespace xrun {

// Returns the text without replacement characters at its ends, the remains of a character that a
// cut between tokens divided.
std::string without_broken_ends(std::string text);

// The refusal "too_long" of a row above max_length. A row that is too long to be read, rendered or
// tokenised has a plain RowRefusal with this reason.
class AboveMaxLength : public RowRefusal {
 public:
  AboveMaxLength(const std::string& detail, int64_t tokens, bool cut_helps)
      : RowRefusal(kTooLongReason, detail), tokens_(tokens), cut_helps_(cut_helps) {}
  int64_t tokens() const { return tokens_; }  // of the longest stream
  // Returns true if a cut would leave a part of every answer.
  bool cut_helps() const { return cut_helps_; }

 private:
  int64_t tokens_;
  bool cut_helps_;
};

// The error of a row that is too long under over_length = "raise".
class TooLongError : public DataError {
 public:
  // Takes the arguments of data_error().
  TooLongError(std::string fault, std::string_view row, std::vector<PastedSetting> settings);
  // Returns this error with the number of rows up to `line` that are too long, so that the user can
  // choose between dropping and cutting them.
  TooLongError counted(int64_t rows, int64_t line) const;

 private:
  std::string fault_, row_;
  std::vector<PastedSetting> settings_;
};

// Fits the row to max_length if one of its streams is longer.
//   kRaise, kDrop  throws AboveMaxLength
//   kCut           removes the end of each stream, in whole characters, which keeps the prompt and
//                  the beginning of the answer; stores the number of tokens and the text around the
//                  first cut in `out`. Throws RowRefusal "no_answer_left" if a stream with trained
//                  tokens would lose all of them.
// `names` are the streams' names in messages: {"the chosen side", "the rejected side"}.
void fit_length(const RowEncoding& encoding, std::initializer_list<std::string_view> names,
                EncodedRow& out);

// Throws RowRefusal "too_long" if more than tokenizer.max_stretch() bytes of the text (valid UTF-8)
// have no point at which the tokenizer can cut it (Tokenizer::safe_splits).
void require_borders(std::string_view text, const Tokenizer& tokenizer);

}  // namespace xrun
