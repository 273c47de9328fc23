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

// Reads {"indices": [rows, k], "likelihoods": [rows, k]} or {(student, teacher): count}; other keys
// of the first form may be strings, numbers and flags, and are reported as provenance. Weights stay
// as they are. Throws Error that names the file if it has neither form, an id beyond a tokenizer, a
// weight below 0, or fewer dense rows than the student has tokens.
ProjectionImport import_projection(const TorchFile& file, const Tokenizer& student,
                                   const Tokenizer& teacher);

}  // namespace xrun
