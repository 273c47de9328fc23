// A training step on a GPU: one wait of the host, the CPU's numbers, the same bits twice.

#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "tests/core/train/trained.h"
#include "tests/gpu/plugin.h"

namespace xrun::step_cuda_test {
namespace {

class StepCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_plugin() == nullptr) GTEST_SKIP() << "no CUDA driver";
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
    at::globalContext().setDeterministicFillUninitializedMemory(false);
  }
  Trained open(c10::Device device, PolicyOptions options = {}) const {
    options.device = device;
    return open_trained(folder_, options);
  }
  const c10::Device gpu_ = c10::Device(c10::kCUDA, 0);
  TinyFolder folder_;
};

// Counts the waits that LibTorch warns about, those of autograd's threads included.
struct WaitCount : c10::WarningHandler {
  void process(const c10::Warning& warning) override {
    if (warning.msg().find("synchronizing") == std::string::npos) return;
    ++waits;
    text += warning.msg() + "\n";
  }
  int waits = 0;
  std::string text;
};

void warn_of_waits(bool on) {
  const auto call =
      reinterpret_cast<void (*)(bool)>(dlsym(cuda_plugin(), "xrun_cuda_warn_of_waits"));
  ASSERT_NE(call, nullptr);
  call(on);
}

// Pairs whose packs of two exceed 3,072 tokens, above which LibTorch's backward of an embedding
// sorts its indices.
std::vector<TinyPair> long_pairs(uint64_t seed) {
  std::vector<TinyPair> pairs = tiny_pairs(4, seed);
  for (TinyPair& pair : pairs) {
    while (pair.prompt.size() < 800) {
      pair.prompt.push_back(static_cast<int32_t>(pair.prompt.size() % 250));
    }
  }
  return pairs;
}

// The first steps load weights, allocate moments and choose algorithms. The reference computes
// pairs that a body sees first.
TEST_F(StepCuda, OneHostSyncPerBody) {
  for (const auto type : {c10::ScalarType::BFloat16, c10::ScalarType::Float}) {
    for (const bool is_long : {false, true}) {
      const Trained t = open(gpu_, {.dtype = type});
      const auto batch_of = [&](uint64_t seed) {
        BatchInfo info;
        info.data_key = "data";
        info.step = static_cast<int64_t>(seed);
        info.device = gpu_;
        return tiny_batch(is_long ? long_pairs(seed) : tiny_pairs(4, seed), 2, info);
      };
      const auto body = [&](Batch& batch) {
        train_step({{&batch, t.objective()}}, t.adamw.get());
        t.reference->flush_arrived();
      };
      for (uint64_t k = 0; k < 2; ++k) body(*batch_of(k));
      for (uint64_t k = 2; k < 4; ++k) {
        const std::shared_ptr<Batch> batch = batch_of(k);
        WaitCount count;
        const c10::WarningUtils::WarningHandlerGuard guard(&count);
        warn_of_waits(true);
        body(*batch);
        warn_of_waits(false);
        EXPECT_EQ(count.waits, 1) << count.text;
      }
      EXPECT_GT(t.reference->counts().computed, 8);
    }
  }
}

TEST_F(StepCuda, MatchesTheCpu) {
  for (const bool lora : {false, true}) {
    PolicyOptions options;
    if (lora) options.lora = AdapterOptions{.rank = 4, .dropout = 0.1};
    const Trained here = open(gpu_, options), host = open(c10::kCPU, options);
    for (int64_t k = 0; k < 5; ++k) EXPECT_NEAR(here.loss(k), host.loss(k), 1e-3) << k;
  }
}

TEST_F(StepCuda, GivesTheSameBitsTwice) {
  const PolicyOptions options{.dtype = c10::ScalarType::BFloat16};
  const Trained first = open(gpu_, options), second = open(gpu_, options);
  for (int64_t k = 0; k < 3; ++k) EXPECT_EQ(first.loss(k), second.loss(k)) << k;
  EXPECT_EQ(first.policy->digest(), second.policy->digest());
}

TEST_F(StepCuda, RecomputedBlocksGiveTheSameBits) {
  PolicyOptions options{.dtype = c10::ScalarType::BFloat16};
  const Trained plain = open(gpu_, options);
  options.recompute = true;
  const Trained recomputed = open(gpu_, options);
  for (int64_t k = 0; k < 3; ++k) EXPECT_EQ(plain.loss(k), recomputed.loss(k)) << k;
}

}  // namespace
}  // namespace xrun::step_cuda_test
