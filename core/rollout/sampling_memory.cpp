// Answers of equal length finish together, so the sampler decodes them in waves of `batch`. In a
// wave the first answer to a prompt holds the prompt's blocks, the others only their own.

#include "core/rollout/sampling_memory.h"

#include <algorithm>

#include "core/model/kv_cache.h"
#include "core/model/ops/cached_calls.h"
#include "core/model/weights/hf_config.h"
#include "core/rollout/sampler_limits.h"

namespace xrun {

SamplingMemory sampling_memory(const ModelConfig& config, c10::ScalarType compute,
                               c10::Device device, const std::vector<int64_t>& prompts,
                               int64_t samples, int64_t max_tokens, const SamplerOptions& options) {
  const KvCache cache(config, compute, 0, device);
  SamplingMemory memory;
  // The first token comes with the prompt; on a device nothing is packed.
  memory.packs = device.is_cpu() && max_tokens > kUnpackedSteps + 1;
  const int64_t all = std::ssize(prompts) * samples;
  memory.rows = std::min({all, options.batch, kHeadRows});
  int64_t bytes = 0, tokens = 0, in_wave = 0;
  for (int64_t i = 0; i < all; ++i) {
    const int64_t prompt = prompts[static_cast<size_t>(i / samples)];
    if (in_wave == options.batch) bytes = tokens = in_wave = 0;
    const bool first = in_wave == 0 || i % samples == 0;
    int64_t length = prompt + max_tokens;
    if (config.max_length > 0) length = std::min(length, config.max_length);
    bytes += cache.slot_bytes(length, first ? 0 : prompt);
    if (first) tokens += prompt;
    ++in_wave;
    memory.cache = std::max(memory.cache, bytes);
    memory.prompt_tokens = std::max(memory.prompt_tokens, tokens);
  }
  memory.cache = std::min(memory.cache, options.cache_mb << 20);
  if (!device.is_cpu()) {
    // A layer's keys and values in fp32, which library calls gather.
    const auto element = static_cast<int64_t>(c10::elementSize(compute));
    memory.cache += std::min(memory.cache / config.layers * 4 / element, 4 * kCachedCallElements);
  }
  memory.prompt_tokens = std::min(memory.prompt_tokens, options.prefill_tokens);
  return memory;
}

}  // namespace xrun
