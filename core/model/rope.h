#pragma once
// Rotary positions (Su et al. 2021) in the half-split pairing of Hugging Face weights.

#include <ATen/core/Tensor.h>

#include "core/model/hf_config.h"

namespace xrun {

// Cosines and sines of every position of a pack, shared by its layers.
struct RopeAngles {
  at::Tensor cos, sin;  // [T, K/2] fp32, rounded to `type` if that is narrower
};

// Inverse frequencies [K/2], fp32, as transformers computes them.
at::Tensor rope_inverse_frequencies(const RopeConfig& rope, int64_t head_dim);

// Angles are computed in fp32 whatever the type.
//   position_ids  [T] int64
RopeAngles rope_angles(const at::Tensor& inverse_frequencies, const at::Tensor& position_ids,
                       at::ScalarType type);

// Rotates the pairs (i, i + K/2) of each head; the op xrun::rope, with its own backward.
//   x  [T, H, K] fp32 or bf16 (others through ATen)
at::Tensor rope(const at::Tensor& x, const RopeAngles& angles);

}  // namespace xrun
