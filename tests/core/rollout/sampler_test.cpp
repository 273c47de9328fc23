// The order of requests, updates of the policy, and what ends a request early.

#include "core/rollout/sampler.h"

#include <csignal>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "tests/core/rollout/sampler_fixture.h"
#include "tests/error_of.h"

namespace xrun::sampler_test {

class SamplerTest : public SamplerFixture {
 protected:
  void TearDown() override {
    clear_interrupt();  // after a failure too, or every later test of the process is interrupted
    SamplerFixture::TearDown();
  }
};

TEST_F(SamplerTest, RequestsLeaveInOrderOfSubmission) {
  Sampler sampler(*model_);
  EXPECT_EQ(sampler.submit({.prompt = prompt_of(5, 0), .max_new_tokens = 9}), 0u);
  EXPECT_EQ(sampler.submit({.prompt = prompt_of(5, 1), .max_new_tokens = 2}), 1u);
  EXPECT_EQ(sampler.submit({.prompt = prompt_of(5, 2), .max_new_tokens = 0}), 2u);
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(sampler.step());
    EXPECT_FALSE(sampler.poll()) << "the second and third request have finished, the first has not";
  }
  EXPECT_FALSE(sampler.step());
  for (const size_t tokens : {9, 2, 0}) EXPECT_EQ(sampler.poll()->samples[0].ids.size(), tokens);
  EXPECT_FALSE(sampler.poll());
  EXPECT_EQ(sampler.bytes(), 0);
}

TEST_F(SamplerTest, AnAnswerIsTheSameInAnyBatchOrderAndMemory) {
  std::vector<SampleRequest> requests;
  for (int64_t i = 0; i < 5; ++i) {
    requests.push_back({.prompt = prompt_of(i % 2 == 0 ? 70 : 3 + i, i),
                        .samples = 1 + i % 3,
                        .max_new_tokens = 4 + 3 * i,
                        .stop_ids = {11, 40},
                        .sampling = kDraws,
                        .prompt_key = static_cast<uint64_t>(i)});
  }
  requests[3].sampling = {.temperature = 1.4, .top_k = 20, .seed = 8};
  requests[4].sampling = {};
  std::vector<std::vector<Generation>> want(5);
  for (size_t i = 0; i < 5; ++i) {
    for (int64_t s = 0; s < requests[i].samples; ++s) want[i].push_back(alone(requests[i], s));
  }
  const std::vector<size_t> rising = {0, 1, 2, 3, 4}, mixed = {3, 1, 4, 0, 2};
  for (const auto& order : {rising, mixed}) {
    for (const SamplerOptions& options :
         {SamplerOptions{}, {.batch = 1}, {.batch = 3}, {.batch = 64, .cache_mb = 0}}) {
      Sampler sampler(*model_, options);
      for (const size_t i : order) sampler.submit(requests[i]);
      const std::vector<SampledGroup> got = finish_all(sampler);
      ASSERT_EQ(got.size(), 5u);
      for (size_t k = 0; k < 5; ++k) {
        SCOPED_TRACE(fmt::format("batch {}, request {}", options.batch, order[k]));
        ASSERT_EQ(got[k].samples.size(), want[order[k]].size());
        for (size_t s = 0; s < got[k].samples.size(); ++s)
          expect_same(got[k].samples[s], want[order[k]][s]);
      }
      EXPECT_EQ(sampler.bytes(), 0);
    }
  }
}

TEST_F(SamplerTest, RequestsMayArriveWhileOthersAreInProgress) {
  const SampleRequest first{.prompt = prompt_of(70, 1), .max_new_tokens = 9, .sampling = kDraws};
  const SampleRequest second{.prompt = prompt_of(8, 2), .max_new_tokens = 9, .sampling = kDraws};
  Sampler sampler(*model_);
  sampler.submit(first);
  for (int i = 0; i < 4; ++i) sampler.step();
  sampler.submit(second);
  const auto got = finish_all(sampler);
  expect_same(got.at(0).samples[0], alone(first));
  expect_same(got.at(1).samples[0], alone(second));
}

TEST_F(SamplerTest, AnUpdateMakesHeldKeysUnreadable) {
  SampleRequest turn{
      .prompt = prompt_of(90, 1), .max_new_tokens = 8, .sampling = kDraws, .hold = true};
  Sampler sampler(*model_);
  sampler.submit(turn);
  const Generation first = finish_all(sampler).at(0).samples[0];
  turn.prompt.insert(turn.prompt.end(), first.ids.begin(), first.ids.end());
  update_policy();
  sampler.submit(turn);
  const Generation second = finish_all(sampler).at(0).samples[0];
  expect_same(second, alone(turn));
  EXPECT_EQ(second.logprobs, packed(turn.prompt, second.ids));
  EXPECT_EQ(sampler.counters().stale, 1);
  EXPECT_EQ(sampler.counters().reused, 0);
}

TEST_F(SamplerTest, AnUpdateRecomputesTheKeysOfAnswersInProgress) {
  const SampleRequest request{
      .prompt = prompt_of(90, 1), .samples = 4, .max_new_tokens = 9, .sampling = kDraws};
  Sampler sampler(*model_, {.batch = 3});  // one sample waits and shares the prompt's keys
  sampler.submit(request);
  for (int i = 0; i < 4; ++i) sampler.step();
  const Generation old = alone(request);
  update_policy();
  const SampledGroup group = finish_all(sampler).at(0);
  EXPECT_EQ(sampler.counters().stale, 3);
  for (size_t s = 0; s < 4; ++s) {
    const Generation& got = group.samples[s];
    const size_t before = s < 3 ? 4 : 0;
    Ids prompt = request.prompt;
    prompt.insert(prompt.end(), got.ids.begin(), got.ids.begin() + before);
    const Ids rest(got.ids.begin() + before, got.ids.end());
    EXPECT_EQ(std::vector<float>(got.logprobs.begin() + before, got.logprobs.end()),
              packed(prompt, rest))
        << "sample " << s;
  }
  EXPECT_TRUE(std::equal(old.ids.begin(), old.ids.begin() + 4, group.samples[0].ids.begin()));
  EXPECT_EQ(sampler.bytes(), 0);
}

TEST_F(SamplerTest, ReplacedWeightsAreNoticedAtTheSameCount) {
  SampleRequest turn{
      .prompt = prompt_of(90, 1), .max_new_tokens = 8, .sampling = kDraws, .hold = true};
  Sampler sampler(*model_);
  sampler.submit(turn);
  const Generation first = finish_all(sampler).at(0).samples[0];
  ASSERT_TRUE(model_->is_packed());
  {
    const at::NoGradGuard no_grad;
    for (Parameter& p : model_->parameters()) p.master.mul_(1.1);
  }
  model_->weights_replaced(model_->update_count);
  turn.prompt.insert(turn.prompt.end(), first.ids.begin(), first.ids.end());
  sampler.submit(turn);
  const Generation second = finish_all(sampler).at(0).samples[0];
  EXPECT_EQ(second.logprobs, packed(turn.prompt, second.ids));
  EXPECT_EQ(sampler.counters().stale, 1);
  EXPECT_EQ(sampler.counters().packed, 2);
}

TEST_F(SamplerTest, ACancelledRequestKeepsItsTokensAndFreesItsMemory) {
  const SampleRequest request{
      .prompt = prompt_of(70, 1), .samples = 3, .max_new_tokens = 9, .sampling = kDraws};
  SampleRequest other = request;
  other.prompt_key = 1;
  Sampler sampler(*model_, {.batch = 2});
  const Ticket first = sampler.submit(request), second = sampler.submit(other);
  for (int i = 0; i < 4; ++i) sampler.step();
  sampler.cancel(first);
  EXPECT_EQ(sampler.bytes(), 0);
  const auto got = finish_all(sampler);
  EXPECT_EQ(got.at(0).ticket, first);
  for (size_t s = 0; s < 3; ++s) {
    EXPECT_EQ(got[0].samples[s].finish, "interrupted");
    EXPECT_EQ(got[0].samples[s].ids.size(), s < 2 ? 4u : 0u);
    expect_same(got[1].samples[s], alone(other, static_cast<int64_t>(s)));
  }
  EXPECT_EQ(got[1].ticket, second);
  sampler.cancel(first);  // polled: ignored
  sampler.cancel(99);
  EXPECT_EQ(sampler.bytes(), 0);
}

TEST_F(SamplerTest, APollReplacesTheCheckForSignals) {
  const SampleRequest request{.prompt = prompt_of(9, 1), .max_new_tokens = 4};
  int64_t calls = 0;
  Sampler polled(*model_, {.poll = [&] { ++calls; }}), plain(*model_);
  polled.submit(request);
  plain.submit(request);
  request_interrupt(SIGINT);
  EXPECT_EQ(finish_all(polled).at(0).samples[0].ids.size(), 4u);
  EXPECT_GE(calls, 4) << "between all forwards";
  EXPECT_EQ(signal_of([&] { plain.step(); }), SIGINT);
  clear_interrupt();
  Sampler stopped(*model_, {.poll = [] { throw Error("the caller's"); }});
  stopped.submit(request);
  EXPECT_EQ(error_of([&] { stopped.step(); }), "the caller's");
}

TEST_F(SamplerTest, RefusesRequestsThatCannotRun) {
  Sampler sampler(*model_);
  const auto refused = [&](SampleRequest request) {
    return error_of([&] { sampler.submit(std::move(request)); });
  };
  EXPECT_EQ(refused({.prompt = {}}),
            "the prompt is empty; a continuation needs at least one token");
  EXPECT_EQ(refused({.prompt = Ids(301, 1)}),
            "the prompt has 301 tokens, the model's limit is 300");
  EXPECT_EQ(refused({.prompt = {1}, .samples = 0}), "samples is 0, wanted 1 to 1048576");
  EXPECT_EQ(refused({.prompt = {1}, .samples = 2, .first_sample = 1048575}),
            "samples is 2, wanted 1 to 1");
  EXPECT_EQ(refused({.prompt = {1}, .prompt_key = uint64_t{1} << 44}),
            "prompt_key is 17592186044416, wanted 0 to 17592186044415");
  EXPECT_EQ(refused({.prompt = {1}, .drafts = {{1}, {2}}}), "samples is 1, but there are 2 drafts");
  EXPECT_EQ(refused({.prompt = {1}, .drafts = {{97}}}),
            "a draft holds the id 97, outside the model's vocabulary of 97");
  EXPECT_FALSE(sampler.step());
  EXPECT_FALSE(sampler.poll());
}

}  // namespace xrun::sampler_test
