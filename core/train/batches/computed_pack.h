#pragma once
// The tokens that a model computes for a micro-batch: those of the pack, or of its folded tree.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "core/model/model.h"
#include "core/prefix/fold_settings.h"

namespace xrun {

struct ModelConfig;
struct PackedBatch;

// F computed tokens: T without folding. Index tensors are on the micro-batch's device.
struct ComputedPack {
  PackInput input;                         // on the host
  std::shared_ptr<const FoldedPack> fold;  // null: every token of the pack is computed
  at::Tensor row_hidden;                   // [R] int64, the computed token that predicts a loss row
  // The distinct predictions: pairs of a computed token and a target. Undefined without folding,
  // where every loss row is one.
  at::Tensor edge_hidden, edge_target;  // [E] int64
  at::Tensor row_edge;                  // [R] int64
  at::Tensor multiplicity;              // [F] float32, sequences that share a token; undefined: 1
  std::vector<int64_t> last_token;      // [S], the computed last token of each segment

  int64_t token_count() const { return input.tokens.size(0); }
};

// Returns the class of each segment of a pack, [S]: segments of one class have the same rotary
// frequencies. Empty if there is one class.
std::vector<int64_t> frequency_classes(const PackedBatch& pack, const ModelConfig& config);

// Returns the pack folded under `settings`, or unfolded if folding is off or does not pay. Only
// segments of one class share tokens, since other frequencies give other hidden states, and only
// tokens of equal keys (FoldOptions::token_keys).
ComputedPack computed_pack(const PackedBatch& pack, const FoldSettings& settings,
                           const std::vector<int64_t>& classes, c10::Device device,
                           const std::vector<int32_t>& token_keys = {});

// Returns the pack's tree whether it pays or not, for a pack that begins with a held prefix
// (held_prefix.h).
ComputedPack computed_tree(const PackedBatch& pack, int64_t min_run, c10::Device device);

}  // namespace xrun
