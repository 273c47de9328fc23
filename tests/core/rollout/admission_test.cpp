// Keys that are shared, held and computed when a sequence starts. Whatever it shares or drops, an
// answer has the tokens and log-probs that it has alone.

#include "core/model/kv_cache.h"
#include "core/model/ops/allocator.h"
#include "tests/core/rollout/sampler_fixture.h"

namespace xrun::admission_test {

class Admission : public SamplerFixture {};

TEST_F(Admission, SamplesThatStartLaterComputeNoPrompt) {
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

TEST_F(Admission, AGroupTakesItsPromptOnceAndTheBlocksOfItsAnswers) {
  const SampleRequest request{.prompt = prompt_of(150, 1), .samples = 6, .max_new_tokens = 60};
  const KvCache cache(model_->config(), at::kFloat);
  Sampler sampler(*model_);
  sampler.submit(request);
  for (int i = 0; i < 20; ++i) {
    sampler.step();
    // 210 tokens are four blocks of 64, of which every sample shares two with the others.
    EXPECT_EQ(sampler.bytes(), cache.slot_bytes(64) * (4 + 5 * 2));
  }
}

TEST_F(Admission, MemoryLimitsTheSequencesInProgress) {
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

TEST_F(Admission, AFurtherTurnComputesOnlyItsNewTokens) {
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
    for (const SampledGroup& one : got) sampler.release(one.ticket, 0);
    EXPECT_EQ(sampler.bytes(), 0);
  }
}

TEST_F(Admission, HeldKeysTakeNoMoreThanTheirTokens) {
  Sampler sampler(*model_);
  sampler.submit({.prompt = prompt_of(90, 1),
                  .max_new_tokens = 200,
                  .hold = true,
                  .on_token = [](int64_t, int32_t) { return true; }});
  EXPECT_EQ(finish_all(sampler).at(0).samples[0].finish, "stop");
  EXPECT_EQ(sampler.bytes(), KvCache(model_->config(), at::kFloat).slot_bytes(90));
}

TEST_F(Admission, ReleasedKeysAreFreedAndTheOthersStayHeld) {
  SampleRequest turn{.prompt = prompt_of(90, 1),
                     .samples = 3,
                     .max_new_tokens = 8,
                     .sampling = kDraws,
                     .hold = true};
  const KvCache cache(model_->config(), at::kFloat);
  Sampler sampler(*model_);
  const Ticket ticket = sampler.submit(turn);
  const SampledGroup group = finish_all(sampler).at(0);
  // 97 tokens are two blocks, of which the samples share the first.
  EXPECT_EQ(sampler.bytes(), cache.slot_bytes(64) * 4);
  sampler.release(ticket, 1);
  sampler.release(ticket, 1);  // not held any more: ignored
  sampler.release(ticket + 1, 0);
  EXPECT_EQ(sampler.bytes(), cache.slot_bytes(64) * 3);
  for (const size_t s : {0, 1, 2}) {
    SampleRequest next = turn;
    next.samples = 1;
    next.first_sample = static_cast<uint32_t>(s);
    next.prompt.insert(next.prompt.end(), group.samples[s].ids.begin(), group.samples[s].ids.end());
    const int64_t before = sampler.counters().reused;
    sampler.submit(next);
    expect_same(finish_all(sampler).at(0).samples[0], alone(next));
    EXPECT_EQ(sampler.counters().reused - before, s == 1 ? 0 : 97) << s;
  }
}

TEST_F(Admission, HeldKeysMakeRoom) {
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

TEST_F(Admission, ALongPromptIsComputedInChunksWithTheSameBits) {
  const SampleRequest request{
      .prompt = prompt_of(200, 1), .samples = 3, .max_new_tokens = 9, .sampling = kDraws};
  SampleRequest other = request;
  other.prompt = prompt_of(30, 2);
  other.prompt_key = 1;
  for (const int64_t chunk : {1, 63, 64, 100, 199, 200}) {
    Sampler sampler(*model_, {.batch = 2, .prefill_tokens = chunk});
    for (const SampleRequest& one : {request, other, request}) sampler.submit(one);
    const auto got = finish_all(sampler);
    for (size_t s = 0; s < 3; ++s) {
      SCOPED_TRACE(fmt::format("chunk {}, sample {}", chunk, s));
      for (const size_t r : {0, 2}) {
        expect_same(got.at(r).samples[s], alone(request, static_cast<int64_t>(s)));
      }
      expect_same(got.at(1).samples[s], alone(other, static_cast<int64_t>(s)));
      EXPECT_EQ(got[0].samples[s].logprobs, packed(request.prompt, got[0].samples[s].ids));
    }
    EXPECT_EQ(sampler.counters().computed, 2 * 200 + 30 + 9 * 8) << "no token twice";
    EXPECT_EQ(sampler.bytes(), 0);
  }
}

TEST_F(Admission, ALongPromptHasThePeakOfAChunk) {
  install_memory_count();
  // The peak above the cache, of the prompt's forward alone.
  const auto peak = [&](int64_t length, int64_t chunk) {
    Sampler sampler(*model_, {.prefill_tokens = chunk});
    sampler.submit({.prompt = prompt_of(length, 1), .max_new_tokens = 1, .hold = true});
    reset_memory_peak();
    const int64_t before = memory_count().held;
    finish_all(sampler);
    return memory_count().peak - before - sampler.bytes();
  };
  peak(280, 4096);  // the scratch memory of a process, allocated for good
  const int64_t chunk = peak(64, 64), whole = peak(280, 4096);
  EXPECT_GT(whole, 3 * chunk);
  EXPECT_LT(peak(128, 64), 1.3 * static_cast<double>(chunk));
  EXPECT_LT(peak(280, 64), 1.3 * static_cast<double>(chunk));
}

}  // namespace xrun::admission_test
