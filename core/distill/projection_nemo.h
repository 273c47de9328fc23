#pragma once
// The projections of NeMo-RL's tools/x_token (minimal_projection_via_multitoken, reapply_exact_map,
// sort_and_cut_projection_matrix), number for number, defects included.

#include <vector>

#include "core/distill/projection.h"
#include "core/distill/projection_build.h"

namespace xrun {

// A file of the tools: `columns` entries for each of `rows` student tokens.
struct DenseProjection {
  int64_t rows = 0, columns = 0;
  std::vector<int64_t> id;    // [rows * columns], -1: empty
  std::vector<float> weight;  // [rows * columns], values of bf16
};

// Returns the file that the three tools make with the models' config.vocab_size equal to the
// tokenizers' sizes. If more special tokens match than prep_top_k and their similarities tie,
// the tools' choice depends on the process; here the lowest ids win. A plain added token goes by
// its spelling, not by the form that a normaliser gives it; and tokenizer.json is taken as it is,
// of which transformers 5 changes the components if the class is LlamaTokenizer.
DenseProjection nemo_projection(const Tokenizer& student, const Tokenizer& teacher,
                                const ProjectionOptions& options);

// Returns its rows as NeMo-RL's loss reads them: -1 and weights of 0 are dropped, a repeated token
// stays repeated.
Projection projection_of(const DenseProjection& dense);

}  // namespace xrun
