#pragma once
// The sequences of a golden file of logits.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/model/weights/safetensors.h"

namespace xrun {

// Cuts `tokens` at `cu_seqlens`.
inline std::vector<std::vector<int32_t>> golden_sequences(const SafetensorsFile& golden) {
  const at::Tensor tokens = golden.read("tokens"), cu = golden.read("cu_seqlens");
  std::vector<std::vector<int32_t>> all;
  for (int64_t s = 0; s + 1 < cu.size(0); ++s) {
    std::vector<int32_t>& one = all.emplace_back();
    for (int64_t t = cu[s].item<int32_t>(); t < cu[s + 1].item<int32_t>(); ++t) {
      one.push_back(static_cast<int32_t>(tokens[t].item<int64_t>()));
    }
  }
  return all;
}

}  // namespace xrun
