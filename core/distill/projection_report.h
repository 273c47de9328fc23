#pragma once
// The report on a projection: counts of its rows, examples, and the rows in which two projections
// differ.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/distill/projection.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

// Counts over all rows of a projection.
struct ProjectionSummary {
  int64_t exact = 0;    // rows with one entry, of weight 1
  int64_t several = 0;  // rows with other entries
  int64_t empty = 0;
  int64_t longest = 0;         // entries of the longest row
  int64_t teacher_tokens = 0;  // teacher tokens that some row names
};
ProjectionSummary summary_of(const Projection& projection);

// Counts of the student's tokens that spell a number of `digits` digits, alone or after a space.
// The KL of the loss "gold" covers only the exact ones (X-Token, arXiv 2605.21699).
struct NumeralRow {
  int64_t digits = 0;
  int64_t tokens = 0, exact = 0, several = 0, empty = 0;
  int32_t example = -1;  // a token with several entries, else an exact one; -1: there are none
};
// Returns the counts for 1 to 4 digits.
std::array<NumeralRow, 4> numeral_rows(const Projection& projection, const Tokenizer& student);

// Returns up to `most` tokens with several entries, evenly spread over the vocabulary.
std::vector<int32_t> example_rows(const Projection& projection, int64_t most);

// Returns `" 201" -> "2" 0.901, "0" 0.090`: bytes of the tokens and weights.
std::string row_text(const Projection& projection, int32_t row, const Tokenizer& student,
                     const Tokenizer& teacher);
// Returns {"id", "token", "entries": [[id, token, weight], ..]}; a token is its bytes as UTF-8,
// with invalid ones replaced.
Json row_json(const Projection& projection, int32_t row, const Tokenizer& student,
              const Tokenizer& teacher);

struct RowDifference {
  int32_t row;
  double distance;  // half the sum of the differences of weights
};
struct ProjectionDifference {
  std::vector<RowDifference> rows;  // rows that differ, the worst first, then by row
  int64_t same = 0;                 // rows that are equal
};
// Throws Error unless both are for the same two tokenizers.
ProjectionDifference difference_of(const Projection& a, const Projection& b);

}  // namespace xrun
