// The sampler: order, sharing, memory, updates of the policy, further turns. Whatever it shares or
// drops, an answer has the tokens and log-probs that it has alone.

#include "core/rollout/sampler.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/model/kv_cache.h"
#include "core/model/model.h"
#include "core/model/ops/linear_head.h"
#include "core/model/weights/init_model.h"
#include "tests/error_of.h"

namespace xrun::sampler_test {

namespace {

using Ids = std::vector<int32_t>;

constexpr int64_t kVocab = 97;
const SamplingOptions kDraws{.temperature = 0.9, .top_p = 0.95, .seed = 3};

// `length` ids that differ from prompt to prompt.
Ids prompt_of(int64_t length, int64_t first) {
  Ids ids;
  for (int64_t i = 0; i < length; ++i) {
    ids.push_back(static_cast<int32_t>((first * 31 + i * i + 7 * i) % kVocab));
  }
  return ids;
}

std::vector<SampledGroup> finish_all(Sampler& sampler) {
  while (sampler.step()) {
  }
  std::vector<SampledGroup> groups;
  while (auto group = sampler.poll()) groups.push_back(std::move(*group));
  return groups;
}

class SamplerTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() / fmt::format("xrun_sampler_{}", ::getpid());
    std::filesystem::remove_all(dir_);
    init_model(dir_, {.hidden = 32,
                      .ffn = 48,
                      .vocab = kVocab,
                      .max_length = 300,
                      .scale = 0.3,
                      .seed = 5});
    model_ = Model::load(dir_, at::kFloat, true);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  Generation alone(const SampleRequest& request, int64_t sample = 0) {
    SampleRequest one = request;
    one.samples = 1;
    one.first_sample += static_cast<uint32_t>(sample);
    Sampler sampler(*model_);
    sampler.submit(one);
    return finish_all(sampler).at(0).samples.at(0);
  }

  // The log-probs of `ids` after `prompt` in a packed forward, at the temperature of kDraws.
  std::vector<float> packed(const Ids& prompt, const Ids& ids) {
    const at::NoGradGuard no_grad;
    Ids all = prompt;
    std::vector<int64_t> index, target;
    for (const int32_t id : ids) {
      index.push_back(std::ssize(all) - 1);
      target.push_back(id);
      all.push_back(id);
    }
    const at::Tensor logprob =
        model_
            ->head(model_->forward(pack_sequences({all})), int64_tensor(index),
                   int64_tensor(target), {.temperature = kDraws.temperature})
            .logprob.contiguous();
    const float* const begin = logprob.const_data_ptr<float>();
    return {begin, begin + logprob.numel()};
  }

  void update_policy() {
    const at::NoGradGuard no_grad;
    for (Parameter& p : model_->parameters()) p.master.mul_(1.1);
    ++model_->update_count;
  }

  std::filesystem::path dir_;
  std::shared_ptr<Model> model_;
};

void expect_same(const Generation& got, const Generation& want) {
  EXPECT_EQ(got.ids, want.ids);
  EXPECT_EQ(got.logprobs, want.logprobs);
  EXPECT_EQ(got.logprobs_kept, want.logprobs_kept);
  EXPECT_EQ(got.finish, want.finish);
}

}  // namespace

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

TEST_F(SamplerTest, SamplesThatStartLaterComputeNoPrompt) {
  const SampleRequest request{
      .prompt = prompt_of(70, 1), .samples = 7, .max_new_tokens = 5, .sampling = kDraws};
  for (const int64_t batch : {1, 2, 5, 64}) {
    Sampler sampler(*model_, {.batch = batch});
    sampler.submit(request);
    const auto got = finish_all(sampler);
    for (int64_t s = 0; s < 7; ++s) {
      expect_same(got.at(0).samples[static_cast<size_t>(s)], alone(request, s));
    }
    // The prompt once, and per sample all tokens but the last.
    EXPECT_EQ(sampler.counters().computed, 70 + 7 * 4) << "batch " << batch;
    EXPECT_EQ(sampler.counters().reused, 6 * 70) << "batch " << batch;
    EXPECT_EQ(sampler.counters().tokens, 35);
    EXPECT_EQ(sampler.bytes(), 0);
  }
}

TEST_F(SamplerTest, AGroupTakesItsPromptOnceAndTheBlocksOfItsAnswers) {
  const SampleRequest request{.prompt = prompt_of(150, 1), .samples = 6, .max_new_tokens = 60};
  const KvCache cache(model_->config(), at::kFloat);
  Sampler sampler(*model_);
  // 210 tokens are four blocks of 64, of which every sample shares two with the others.
  EXPECT_EQ(sampler.request_bytes(request), cache.slot_bytes(64) * (4 + 5 * 2));
  sampler.submit(request);
  for (int i = 0; i < 20; ++i) {
    sampler.step();
    EXPECT_EQ(sampler.bytes(), sampler.request_bytes(request));
  }
}

TEST_F(SamplerTest, MemoryLimitsTheSequencesInProgress) {
  const SampleRequest request{.prompt = prompt_of(64, 1), .max_new_tokens = 64};
  const int64_t one = KvCache(model_->config(), at::kFloat).slot_bytes(128);
  Sampler sampler(*model_, {.cache_mb = (2 * one >> 20) + 1});
  int64_t most = 0;
  for (int i = 0; i < 40; ++i) sampler.submit(request);
  const int64_t limit = ((2 * one >> 20) + 1) << 20;
  while (sampler.step()) {
    most = std::max(most, sampler.bytes());
    EXPECT_LE(sampler.bytes(), limit);
  }
  EXPECT_EQ(most, limit / one * one);
}

TEST_F(SamplerTest, AFurtherTurnComputesOnlyItsNewTokens) {
  const SampleRequest turn{.prompt = prompt_of(90, 1),
                           .samples = 3,
                           .max_new_tokens = 8,
                           .sampling = kDraws,
                           .hold = true};
  for (const bool hold : {true, false}) {
    Sampler sampler(*model_);
    SampleRequest first = turn;
    first.hold = hold;
    sampler.submit(first);
    std::vector<SampleRequest> next;
    const SampledGroup group = finish_all(sampler).at(0);
    for (size_t s = 0; s < 3; ++s) {
      SampleRequest& request = next.emplace_back(turn);
      request.samples = 1;
      request.first_sample = static_cast<uint32_t>(s);
      const Ids& ids = group.samples[s].ids;
      request.prompt.insert(request.prompt.end(), ids.begin(), ids.end());
      for (const int32_t id : prompt_of(40, 7)) request.prompt.push_back(id);
    }
    const int64_t before = sampler.counters().computed;
    for (const SampleRequest& request : next) sampler.submit(request);
    const auto got = finish_all(sampler);
    for (size_t s = 0; s < 3; ++s) {
      SCOPED_TRACE(fmt::format("hold {}, sample {}", hold, s));
      const Generation& answer = got.at(s).samples[0];
      expect_same(answer, alone(next[s]));
      EXPECT_EQ(answer.logprobs, packed(next[s].prompt, answer.ids));
    }
    // The last token of the answer, the message, and all but the last new token.
    EXPECT_EQ(sampler.counters().computed - before, 3 * ((hold ? 1 : 98) + 40 + 7));
    EXPECT_EQ(sampler.counters().evicted, 0);
    sampler.release_held();
    EXPECT_EQ(sampler.bytes(), 0);
  }
}

TEST_F(SamplerTest, HeldKeysTakeNoMoreThanTheirTokens) {
  Sampler sampler(*model_);
  sampler.submit({.prompt = prompt_of(90, 1),
                  .max_new_tokens = 200,
                  .hold = true,
                  .on_token = [](int64_t, int32_t) { return true; }});
  EXPECT_EQ(finish_all(sampler).at(0).samples[0].finish, "stop");
  EXPECT_EQ(sampler.bytes(), KvCache(model_->config(), at::kFloat).slot_bytes(90));
}

TEST_F(SamplerTest, HeldKeysMakeRoom) {
  const int64_t one = KvCache(model_->config(), at::kFloat).slot_bytes(128);
  const int64_t fit = (1 << 20) / one;
  SampleRequest turn{.prompt = prompt_of(100, 1),
                     .samples = 1,
                     .max_new_tokens = 20,
                     .sampling = kDraws,
                     .hold = true};
  Sampler sampler(*model_, {.batch = 1, .cache_mb = 1});
  std::vector<SampleRequest> next;
  for (int64_t i = 0; i < fit + 2; ++i) {
    turn.prompt = prompt_of(100, i);
    sampler.submit(turn);
    const SampledGroup group = finish_all(sampler).at(0);
    SampleRequest& request = next.emplace_back(turn);
    for (const int32_t id : group.samples[0].ids) request.prompt.push_back(id);
    request.prompt.push_back(5);
    EXPECT_LE(sampler.bytes(), 1 << 20);
  }
  EXPECT_EQ(sampler.counters().evicted, 2);
  const int64_t reused = sampler.counters().reused;
  sampler.submit(next.back());
  expect_same(finish_all(sampler).at(0).samples[0], alone(next.back()));
  EXPECT_EQ(sampler.counters().reused - reused, 119);
  sampler.submit(next.front());  // evicted: computed again
  expect_same(finish_all(sampler).at(0).samples[0], alone(next.front()));
  EXPECT_EQ(sampler.counters().reused - reused, 119);
}

TEST_F(SamplerTest, AnUpdateMakesHeldKeysUnreadable) {
  SampleRequest turn{
      .prompt = prompt_of(90, 1), .max_new_tokens = 8, .sampling = kDraws, .hold = true};
  Sampler sampler(*model_);
  sampler.submit(turn);
  const Generation first = finish_all(sampler).at(0).samples[0];
  EXPECT_EQ(first.first_version, 0);
  turn.prompt.insert(turn.prompt.end(), first.ids.begin(), first.ids.end());
  update_policy();
  sampler.submit(turn);
  const Generation second = finish_all(sampler).at(0).samples[0];
  expect_same(second, alone(turn));
  EXPECT_EQ(second.logprobs, packed(turn.prompt, second.ids));
  EXPECT_EQ(second.first_version, 1);
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
    EXPECT_EQ(got.first_version, s < 3 ? 0 : 1);
    EXPECT_EQ(got.last_version, 1);
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

TEST_F(SamplerTest, WeightsArePackedOncePerUpdate) {
  const SampleRequest request{.prompt = prompt_of(9, 1), .max_new_tokens = 20, .sampling = kDraws};
  Sampler sampler(*model_);
  for (int round = 0; round < 2; ++round) {
    for (int again = 0; again < 2; ++again) {
      sampler.submit(request);
      const Generation got = finish_all(sampler).at(0).samples[0];
      EXPECT_EQ(got.logprobs, packed(request.prompt, got.ids));
    }
    EXPECT_EQ(sampler.counters().packed, round + 1);
    update_policy();
  }
}

TEST_F(SamplerTest, ADraftChangesNothingButTheTime) {
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

TEST_F(SamplerTest, ARightDraftTakesFewSteps) {
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

TEST_F(SamplerTest, AWrongDraftIsGivenUp) {
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
