#pragma once
// Builds a projection from two tokenizers: each token is written with the other tokenizer.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/distill/projection.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

struct ProjectionOptions {
  int64_t top_k = 4;          // entries of a row
  int64_t tokens_to_cut = 4;  // of the tokens that write one token, only the first ones count
  bool reverse = true;        // also write each teacher token with student tokens
  bool specials = true;       // map special tokens
  bool exact = true;          // a token that both vocabularies have maps only to its twin
  // Gives the numbers of NeMo-RL's tools, defects included (projection_nemo.h). The other three
  // settings are read only then.
  bool nemo = false;
  bool canonical = false;  // compare texts in the form of NeMo-RL's aligner (dp_canonical.h)
  int64_t prep_top_k = 32;
  bool scale_trick = true;
};

// Returns the projection of two tokenizers. Deterministic and sparse; takes about a second.
//
// Tokens are matched by their bytes inside a text (" the" whether it is spelled "Ġthe" or "▁the").
// A row is the sum of the student's token written in teacher tokens, weights 0.9 * 0.1^i, and of
// the teacher's tokens that are written with it (reverse); it is cut to top_k and sums to 1. Pairs
// of equal bytes have the weight 1, and only they: a row whose only token spells other bytes sums
// to 0.9. Special tokens pair by spelling, then by role (eos, bos, pad, unk). A token that its own
// tokenizer never writes, since another one spells the same bytes, has an empty row unless the
// teacher has such a twin too.
Projection build_projection(const Tokenizer& student, const Tokenizer& teacher,
                            const ProjectionOptions& options = {});

// Returns the options as a JSON object, for provenance.
Json projection_options_json(const ProjectionOptions& options);

// Returns the weights of 1 to `tokens` tokens that write one token: 0.9 * 0.1^i, normalised.
std::vector<double> spelling_weights(size_t tokens);

// One weight for a pair of tokens; weights of the same pair are summed.
struct ProjectionCount {
  int32_t student, teacher;
  double weight;
};

// Sorts by student and teacher token, and adds the weights of a pair in the order given.
std::vector<ProjectionCount> summed_counts(std::vector<ProjectionCount> counts);

}  // namespace xrun
