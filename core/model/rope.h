#pragma once
// Rotary positions (Su et al. 2021) in the half-split pairing of Hugging Face weights.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/model/hf_config.h"

namespace xrun {

// Cosines and sines of every position of a pack, shared by its layers.
struct RopeAngles {
  at::Tensor cos, sin;  // [T, K/2] fp32, rounded to `type` if that is narrower
};

// Whether frequencies depend on a segment's length: dynamic and longrope.
bool rope_by_length(const RopeConfig& rope);

// Inverse frequencies of a segment of `length` tokens, [K/2] fp32, as transformers computes them.
at::Tensor rope_inverse_frequencies(const RopeConfig& rope, int64_t head_dim, int64_t length);

// Angles are computed in fp32 whatever the type, and cos and sin scaled by the attention factor
// before they are rounded. Where frequencies depend on the length, that is the last position of a
// segment plus 1, so that a segment's angles do not depend on its neighbours.
//   position_ids  [T] int64 on the host; the angles lie on `device`
//   cu_seqlens    [S+1] from 0 to T
RopeAngles rope_angles(const RopeConfig& rope, int64_t head_dim, const at::Tensor& position_ids,
                       const std::vector<int64_t>& cu_seqlens, at::ScalarType type,
                       c10::Device device = c10::kCPU);

// Rotates the pairs (i, i + K/2) of each head; the op xrun::rope, with its own backward.
//   x  [T, H, K] fp32 or bf16 (others through ATen)
at::Tensor rope(const at::Tensor& x, const RopeAngles& angles);

}  // namespace xrun
