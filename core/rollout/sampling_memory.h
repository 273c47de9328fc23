#pragma once
// Plans the memory that sampling the answers to a step's prompts takes, before anything is loaded.

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <vector>

#include "core/rollout/sampler.h"

namespace xrun {

struct SamplingMemory {
  int64_t cache = 0;          // bytes of keys and values at their peak; on a device also those
                              // that a layer's attention gathers
  int64_t prompt_tokens = 0;  // of the largest forward over prompts
  int64_t rows = 0;           // of logits in one product
  bool packs = false;         // answers are long enough that weights are packed
};

// Returns the memory of a sampler that answers prompts of these lengths, in this order, `samples`
// times each. Every answer is taken to have max_tokens tokens, the most that it may have.
//   compute, device  of the policy's activations
SamplingMemory sampling_memory(const ModelConfig& config, c10::ScalarType compute,
                               c10::Device device, const std::vector<int64_t>& prompts,
                               int64_t samples, int64_t max_tokens,
                               const SamplerOptions& options = {});

}  // namespace xrun
