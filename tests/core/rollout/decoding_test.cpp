// Packed weights and drafts change the time of decoding, and no token or log-prob.

#include <ATen/core/grad_mode.h>

#include "core/model/ops/allocator.h"
#include "tests/core/rollout/sampler_fixture.h"

namespace xrun::decoding_test {

class Decoding : public SamplerFixture {};

TEST_F(Decoding, WeightsArePackedOncePerUpdateForAllSamplers) {
  const SampleRequest request{.prompt = prompt_of(9, 1), .max_new_tokens = 20, .sampling = kDraws};
  Sampler long_lived(*model_);
  for (int64_t round = 0; round < 3; ++round) {
    Sampler other(*model_);
    for (Sampler* const sampler : {&long_lived, &other, &long_lived}) {
      sampler->submit(request);
      const Generation got = finish_all(*sampler).at(0).samples[0];
      EXPECT_EQ(got.logprobs, packed(request.prompt, got.ids)) << round;
    }
    EXPECT_EQ(long_lived.counters().packed + other.counters().packed, round + 1);
    update_policy();
    EXPECT_FALSE(model_->is_packed());
  }
}

TEST_F(Decoding, ATrainingForwardReleasesPackedWeights) {
  install_memory_count();
  const SampleRequest request{.prompt = prompt_of(9, 1), .max_new_tokens = 20, .sampling = kDraws};
  int64_t packed = 0;
  const auto sample = [&] {
    Sampler sampler(*model_);
    sampler.submit(request);
    const Generation got = finish_all(sampler).at(0).samples[0];
    packed += sampler.counters().packed;
    return got;
  };
  model_->forward(pack_sequences({request.prompt}));  // the scratch memory, allocated for good
  const Generation first = sample();
  ASSERT_TRUE(model_->is_packed());
  const int64_t before = memory_count().held;
  {
    const at::NoGradGuard no_grad;
    model_->forward(pack_sequences({request.prompt}));
    EXPECT_TRUE(model_->is_packed()) << "an evaluation needs no gradients";
  }
  model_->forward(pack_sequences({request.prompt}));
  EXPECT_FALSE(model_->is_packed());
  EXPECT_LE(memory_count().held, before - 4 * kVocab * 32) << "at least the head";
  expect_same(sample(), first);
  EXPECT_EQ(packed, 2);
}

TEST_F(Decoding, ADraftChangesNothingButTheTime) {
  for (const SamplingOptions& sampling :
       {SamplingOptions{}, kDraws, SamplingOptions{.temperature = 1.5, .top_k = 30, .seed = 1},
        SamplingOptions{.temperature = 0.7, .min_p = 0.05, .seed = 9}}) {
    SampleRequest request{.prompt = prompt_of(60, 1),
                          .samples = 8,
                          .max_new_tokens = 40,
                          .stop_ids = {11, 40},
                          .sampling = sampling};
    std::vector<Generation> want;
    for (int64_t s = 0; s < 8; ++s) want.push_back(alone(request, s));
    // Right; random; right up to a token; with wrong tokens between; longer; shorter; another
    // sample's; empty.
    for (const Generation& one : want) request.drafts.push_back(one.ids);
    request.drafts[1] = prompt_of(40, 3);
    request.drafts[2].resize(request.drafts[2].size() / 2);
    for (const int32_t id : prompt_of(30, 4)) request.drafts[2].push_back(id);
    for (size_t i = 5; i < request.drafts[3].size(); i += 9) {
      int32_t& id = request.drafts[3][i];
      id = (id + 1) % kVocab;
    }
    for (const int32_t id : prompt_of(50, 5)) request.drafts[4].push_back(id);
    request.drafts[5].resize(request.drafts[5].size() / 2);
    request.drafts[6] = want[0].ids;
    request.drafts[7] = {};
    for (const int64_t batch : {1, 3, 64}) {
      Sampler sampler(*model_, {.batch = batch});
      sampler.submit(request);
      const auto got = finish_all(sampler);
      for (size_t s = 0; s < 8; ++s) {
        SCOPED_TRACE(
            fmt::format("temperature {}, batch {}, sample {}", sampling.temperature, batch, s));
        expect_same(got.at(0).samples[s], want[s]);
      }
      EXPECT_GT(sampler.counters().accepted, 0);
      EXPECT_LT(sampler.counters().accepted, sampler.counters().drafted);
      EXPECT_EQ(sampler.bytes(), 0);
    }
  }
}

TEST_F(Decoding, ARightDraftTakesFewSteps) {
  SampleRequest request{.prompt = prompt_of(60, 1), .max_new_tokens = 60, .sampling = kDraws};
  const Generation want = alone(request);
  request.drafts = {want.ids};
  Sampler sampler(*model_);
  sampler.submit(request);
  int steps = 1;
  while (sampler.step()) ++steps;
  expect_same(sampler.poll()->samples[0], want);
  // 1 token with the prompt, 9 of the first window, 17 of the second, the rest.
  EXPECT_EQ(steps, 4);
  EXPECT_EQ(sampler.counters().accepted, sampler.counters().drafted);
  EXPECT_EQ(sampler.counters().computed, 60 + 59);
}

TEST_F(Decoding, AWrongDraftIsGivenUp) {
  SampleRequest request{.prompt = prompt_of(60, 1), .max_new_tokens = 60, .sampling = kDraws};
  const Generation want = alone(request);
  request.drafts.emplace_back();
  for (const int32_t id : want.ids) request.drafts[0].push_back((id + 1) % kVocab);
  Sampler sampler(*model_);
  sampler.submit(request);
  expect_same(finish_all(sampler).at(0).samples[0], want);
  EXPECT_EQ(sampler.counters().drafted, 9) << "eight tokens, then one";
  EXPECT_EQ(sampler.counters().accepted, 0);
}

// 32 samples would offer 256 tokens in their first step.
TEST_F(Decoding, WrongDraftsOfManySamplesWaitForTheNextUpdate) {
  SampleRequest request{
      .prompt = prompt_of(60, 1), .samples = 32, .max_new_tokens = 20, .sampling = kDraws};
  request.drafts.assign(32, std::vector<int32_t>(20, 5));
  Sampler sampler(*model_);
  sampler.submit(request);
  finish_all(sampler);
  const int64_t drafted = sampler.counters().drafted;
  EXPECT_GT(drafted, 0);
  EXPECT_LE(drafted, 72);
  update_policy();
  sampler.submit(request);
  finish_all(sampler);
  EXPECT_GT(sampler.counters().drafted, drafted);
  EXPECT_LE(sampler.counters().drafted, 2 * 72);
}

}  // namespace xrun::decoding_test
