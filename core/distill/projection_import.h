#pragma once
// Projections from files of NeMo-RL: dense ones of its tools, sparse ones of token counts.

#include <cstdint>

#include "core/distill/projection.h"
#include "core/distill/torch_file.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

struct ProjectionImport {
  Projection projection;
  int64_t padded_rows = 0;  // rows beyond the student's tokenizer, left out
};

// Reads {"indices": [rows, k], "likelihoods": [rows, k]} or {(student, teacher): count}. Weights
// stay as they are. Strings, numbers and flags under other keys of the first form become
// provenance. Throws Error that names the file for
//   neither form
//   an id beyond a tokenizer, or a weight that is below 0 or not finite
//   fewer dense rows than the student has tokens, or more than padding explains
ProjectionImport import_projection(const TorchFile& file, const Tokenizer& student,
                                   const Tokenizer& teacher);

}  // namespace xrun
