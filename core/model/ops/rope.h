#pragma once
// Rotary positions (Su et al. 2021) in the half-split pairing of Hugging Face weights.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace xrun {

// The base theta of rotary positions, and how it is scaled.
struct RopeConfig {
  enum class Type { kDefault, kLinear, kDynamic, kYarn, kLongrope, kLlama3 };
  Type type = Type::kDefault;
  double theta = 10000.0;
  double factor = 1.0;                                   // linear, dynamic, llama3, yarn
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // llama3
  double beta_fast = 32.0, beta_slow = 1.0;              // yarn
  bool truncate = true;                                  // yarn: the ramp ends at whole dimensions
  std::vector<double> short_factor = {}, long_factor = {};  // longrope, K/2 each
  double attention_factor = 1.0;                            // yarn, longrope: scales cos and sin
  int64_t original_max_length = 0;                          // llama3, yarn, longrope
  int64_t max_length = 0;                                   // dynamic: lengths beyond it stretch
};

// Cosines and sines of every position of a pack, shared by the layers of a forward.
struct RopeAngles {
  at::Tensor cos, sin;  // [T, K/2] fp32, rounded to `type` if that is narrower
};

// Returns true if frequencies depend on the length of the segment, as in dynamic and longrope.
bool rope_by_length(const RopeConfig& rope);

// Returns a number that is equal for lengths with equal frequencies. It is the length, but at least
// max_length, for dynamic; 0 or 1 for the short or long list of longrope; else 0.
int64_t rope_frequency_class(const RopeConfig& rope, int64_t length);

// Returns the inverse frequencies of a segment of `length` tokens, [K/2] fp32, as in transformers.
at::Tensor rope_inverse_frequencies(const RopeConfig& rope, int64_t head_dim, int64_t length);

// The positions of a pack.
struct RopePositions {
  at::Tensor ids;                   // [T] int64 on the host
  std::vector<int64_t> cu_seqlens;  // [N+1] boundaries of segments or nodes, from 0 to T
  // [N] the length that chooses a node's frequencies if they depend on it; empty: its last position
  // plus 1, so that neighbours have no influence
  std::vector<int32_t> lengths = {};
};

// Returns the angles of a pack on `device`. They are computed in fp32 whatever the type; cos and
// sin are scaled by the attention factor, then rounded.
RopeAngles rope_angles(const RopeConfig& rope, int64_t head_dim, const RopePositions& positions,
                       at::ScalarType type, c10::Device device = c10::kCPU);

// Returns x with the pairs (i, i + K/2) of each head rotated; the op xrun::rope.
//   x  [T, H, K] floating; fp32 and bf16 have kernels on the CPU
at::Tensor rope(const at::Tensor& x, const RopeAngles& angles);

}  // namespace xrun
