// The planned memory of sampling against what the cache says of its slots.

#include "core/rollout/sampling_memory.h"

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include "core/model/kv_cache.h"
#include "core/model/weights/hf_config.h"

namespace xrun::sampling_memory_test {

ModelConfig config() {
  ModelConfig config;
  config.layers = 2;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 16;
  config.max_length = 1000;
  return config;
}

TEST(SamplingMemory, AGroupHoldsItsPromptOnceAndItsAnswersEach) {
  const int64_t block = KvCache(config(), at::kFloat).slot_bytes(64);
  // 210 tokens are four blocks of 64, of which every sample shares two with the others.
  const SamplingMemory memory = sampling_memory(config(), at::kFloat, c10::kCPU, {130}, 6, 80);
  EXPECT_EQ(memory.cache, block * (4 + 5 * 2));
  EXPECT_EQ(memory.prompt_tokens, 130);
  EXPECT_EQ(memory.rows, 6);
  EXPECT_TRUE(memory.packs);
  EXPECT_FALSE(sampling_memory(config(), at::kFloat, c10::kCPU, {130}, 6, 3).packs)
      << "too short to pay";
}

TEST(SamplingMemory, CountsTheLargestWaveOfSequences) {
  const int64_t block = KvCache(config(), at::kFloat).slot_bytes(64);
  const SamplerOptions options{.batch = 4};
  // Waves of four: two prompts of one block with two samples each, then one of eleven.
  const SamplingMemory memory =
      sampling_memory(config(), at::kFloat, c10::kCPU, {40, 40, 640, 40}, 2, 20, options);
  EXPECT_EQ(memory.cache, block * (11 + 1 + 1 + 1));
  EXPECT_EQ(memory.prompt_tokens, 680);
  EXPECT_EQ(memory.rows, 4);
  EXPECT_EQ(
      sampling_memory(config(), at::kFloat, c10::kCPU, {640, 640, 640}, 100, 300, {.cache_mb = 1})
          .cache,
      1 << 20);
}

TEST(SamplingMemory, OnADeviceALayersKeysAreGatheredAndNothingIsPacked) {
  const c10::Device device(c10::kCUDA, 0);
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const int64_t block = KvCache(config(), type, 0, device).slot_bytes(64);
    EXPECT_EQ(block, 64 * 2 * 2 * 2 * 16 * (type == at::kFloat ? 4 : 2));
    const SamplingMemory memory = sampling_memory(config(), type, device, {130}, 6, 80);
    // The gathered ones of one of two layers are in fp32.
    EXPECT_EQ(memory.cache, block * (4 + 5 * 2) * (type == at::kFloat ? 3 : 4) / 2);
    EXPECT_FALSE(memory.packs);
  }
}

TEST(SamplingMemory, ALongPromptTakesTheForwardOfAChunk) {
  EXPECT_EQ(sampling_memory(config(), at::kFloat, c10::kCPU, {900}, 2, 20).prompt_tokens, 900);
  EXPECT_EQ(sampling_memory(config(), at::kFloat, c10::kCPU, {900}, 2, 20, {.prefill_tokens = 256})
                .prompt_tokens,
            256);
}

}  // namespace xrun::sampling_memory_test
