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
// tokenizers' sizes. It differs from theirs in three cases:
//   more special tokens match than prep_top_k, with equal similarities: the lowest ids win here,
//   while the tools' choice depends on the process
//   a plain added token has a normaliser: its spelling counts here, not its normalised form
//   the class is LlamaTokenizer: transformers 5 changes components of tokenizer.json, which is read
//   as it is here
// Throws Error unless top_k and prep_top_k are from 1 to 2^20.
DenseProjection nemo_projection(const Tokenizer& student, const Tokenizer& teacher,
                                const ProjectionOptions& options);

// Returns the rows as NeMo-RL's loss reads them: -1 and weights of 0 are dropped, a repeated token
// stays repeated.
Projection projection_of(const DenseProjection& dense);

}  // namespace xrun
