// Answers sampled on a GPU against those of the CPU: the same greedy tokens, and log-probs within
// the table of docs/numerics.md.

#include <ATen/Context.h>

#include "tests/core/rollout/sampler_fixture.h"
#include "tests/gpu/plugin.h"

namespace xrun::sampler_cuda_test {

class SamplerCuda : public SamplerFixture {
 protected:
  void SetUp() override {
    if (cuda_plugin() == nullptr) GTEST_SKIP() << "no CUDA driver";
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
    at::globalContext().setDeterministicFillUninitializedMemory(false);
    SamplerFixture::SetUp();
  }
  std::shared_ptr<Model> open(at::ScalarType type) const {
    return Model::load(dir_, {.dtype = type, .device = c10::Device(c10::kCUDA, 0)});
  }
  static std::vector<SampledGroup> sample(Model& model, const SamplingOptions& sampling,
                                          const SamplerOptions& options = {}) {
    Sampler sampler(model, options);
    for (int64_t i = 0; i < 4; ++i) {
      sampler.submit({.prompt = prompt_of(i % 2 == 0 ? 150 : 9, i),
                      .samples = 1 + i,
                      .max_new_tokens = 40,
                      .sampling = sampling,
                      .prompt_key = static_cast<uint64_t>(i)});
    }
    return finish_all(sampler);
  }
};

TEST_F(SamplerCuda, GreedyTokensAreThoseOfTheCpu) {
  const auto there = open(at::kFloat);
  const std::vector<SampledGroup> want = sample(*model_, {});
  for (const int64_t prefill_tokens : {4096, 40}) {
    const std::vector<SampledGroup> got = sample(*there, {}, {.prefill_tokens = prefill_tokens});
    ASSERT_EQ(got.size(), want.size());
    for (size_t g = 0; g < want.size(); ++g) {
      for (size_t s = 0; s < want[g].samples.size(); ++s) {
        const Generation &one = got[g].samples.at(s), &other = want[g].samples[s];
        EXPECT_EQ(one.ids, other.ids) << "request " << g << ", sample " << s;
        ASSERT_EQ(one.logprobs.size(), other.logprobs.size());
        for (size_t t = 0; t < other.logprobs.size(); ++t) {
          EXPECT_NEAR(one.logprobs[t], other.logprobs[t], 1e-4) << "token " << t;
        }
      }
    }
  }
}

TEST_F(SamplerCuda, LogProbsAreThoseOfTheForward) {
  for (const auto& [type, tolerance] : {std::pair{at::kFloat, 1e-4}, {at::kBFloat16, 1.5e-1}}) {
    const auto there = open(type);
    model_ = load_model(dir_, type, false);
    const std::vector<SampledGroup> got = sample(*there, kDraws);
    for (size_t g = 0; g < got.size(); ++g) {
      const Ids prompt = prompt_of(g % 2 == 0 ? 150 : 9, static_cast<int64_t>(g));
      for (const Generation& one : got[g].samples) {
        const std::vector<float> wanted = packed(prompt, one.ids);
        for (size_t t = 0; t < wanted.size(); ++t) {
          EXPECT_NEAR(one.logprobs[t], wanted[t], tolerance) << type << ", token " << t;
        }
      }
    }
  }
}

TEST_F(SamplerCuda, GivesTheSameBitsTwice) {
  const auto there = open(at::kBFloat16);
  const auto first = sample(*there, kDraws), second = sample(*there, kDraws);
  for (size_t g = 0; g < first.size(); ++g) {
    for (size_t s = 0; s < first[g].samples.size(); ++s) {
      expect_same(first[g].samples[s], second[g].samples[s]);
    }
  }
}

}  // namespace xrun::sampler_cuda_test
