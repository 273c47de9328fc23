#pragma once
// Special tokens of two tokenizers that resemble each other, as NeMo-RL's tools match them.

#include <string_view>
#include <vector>

#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

struct SimilarSpecials {
  int32_t student, teacher;
  double similarity;
};

// Returns for each student piece that is spelled "<...>" the `most` teacher pieces of that form
// that resemble it most, from `least` on; ties go to the lowest id.
std::vector<SimilarSpecials> similar_specials(const Tokenizer& student, const Tokenizer& teacher,
                                              double least, int64_t most);

// Returns 0.6 of the ratio of Python's difflib.SequenceMatcher and 0.4 of the share of words of
// three characters and more that two spellings have in common.
double special_similarity(std::string_view a, std::string_view b);

}  // namespace xrun
