// The sampler on a device other than the CPU: the answers of the CPU, and one read of the device
// for all tokens of a step.

#include <ATen/ops/cat.h>
#include <gtest/gtest.h>

#include "core/model/kv_cache.h"
#include "core/model/ops/attention.h"
#include "core/rollout/choices.h"
#include "tests/core/rollout/sampler_fixture.h"
#include "tests/gradient_check.h"
#include "tests/pretend/pretend_device.h"
#include "tests/tensor_difference.h"
#include "tests/tree.h"

namespace xrun::sampler_device_test {

class SamplerDevice : public SamplerFixture {
 protected:
  void SetUp() override {
    SamplerFixture::SetUp();
    there_ = open(dir_, at::kFloat);
  }
  std::shared_ptr<Model> open(const std::filesystem::path& dir, at::ScalarType type) const {
    return Model::load(dir, {.dtype = type, .device = device_});
  }
  static std::vector<SampledGroup> sample(Model& model, const std::vector<SampleRequest>& requests,
                                          const SamplerOptions& options = {}) {
    Sampler sampler(model, options);
    for (const SampleRequest& request : requests) sampler.submit(request);
    auto groups = finish_all(sampler);
    EXPECT_EQ(sampler.bytes(), 0);
    return groups;
  }
  // The tolerance of docs/numerics.md for samples.
  static void expect_near(const std::vector<SampledGroup>& got,
                          const std::vector<SampledGroup>& want, double tolerance = 1e-4) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t g = 0; g < want.size(); ++g) {
      ASSERT_EQ(got[g].samples.size(), want[g].samples.size());
      for (size_t s = 0; s < want[g].samples.size(); ++s) {
        SCOPED_TRACE(fmt::format("request {}, sample {}", g, s));
        const Generation &one = got[g].samples[s], &other = want[g].samples[s];
        EXPECT_EQ(one.ids, other.ids);
        EXPECT_EQ(one.finish, other.finish);
        ASSERT_EQ(one.logprobs.size(), other.logprobs.size());
        for (size_t t = 0; t < other.logprobs.size(); ++t) {
          EXPECT_NEAR(one.logprobs[t], other.logprobs[t], tolerance) << "token " << t;
        }
      }
    }
  }
  // Groups with a prompt of several blocks, of less than one, and greedy answers.
  static std::vector<SampleRequest> requests() {
    std::vector<SampleRequest> all;
    for (int64_t i = 0; i < 4; ++i) {
      all.push_back({.prompt = prompt_of(i % 2 == 0 ? 130 : 3 + i, i),
                     .samples = 1 + i,
                     .max_new_tokens = 6 + 2 * i,
                     .stop_ids = {11, 40},
                     .sampling = kDraws,
                     .prompt_key = static_cast<uint64_t>(i)});
    }
    all[2].sampling = {};
    return all;
  }

  const c10::Device device_ = pretend_device();
  std::shared_ptr<Model> there_;
};

TEST_F(SamplerDevice, AnswersAreThoseOfTheCpu) {
  const std::vector<SampledGroup> want = sample(*model_, requests());
  // In one batch, in small ones, in chunks of prompts, and with room for one sequence at a time.
  for (const SamplerOptions& options :
       {SamplerOptions{}, {.batch = 3}, {.prefill_tokens = 40}, {.batch = 64, .cache_mb = 0}}) {
    SCOPED_TRACE(fmt::format("batch {}, prefill {}", options.batch, options.prefill_tokens));
    expect_near(sample(*there_, requests(), options), want);
  }
}

TEST_F(SamplerDevice, DraftsAreAcceptedAsOnTheCpu) {
  std::vector<SampleRequest> drafted = requests();
  const std::vector<SampledGroup> want = sample(*model_, drafted);
  for (size_t g = 0; g < drafted.size(); ++g) {
    for (const Generation& one : want[g].samples) {
      Ids draft = one.ids;
      if (g == 3) draft[draft.size() / 2] = 5;  // goes wrong, and is cut from the cache again
      drafted[g].drafts.push_back(draft);
    }
  }
  Sampler sampler(*there_);
  for (const SampleRequest& request : drafted) sampler.submit(request);
  expect_near(finish_all(sampler), want);
  EXPECT_GT(sampler.counters().accepted, 10);
  EXPECT_LT(sampler.counters().accepted, sampler.counters().drafted);
}

TEST_F(SamplerDevice, HeldKeysAreContinuedAndDroppedByAnUpdate) {
  const auto turns = [](Model& model) {
    Sampler sampler(model);
    std::vector<SampledGroup> all;
    Ids prompt = prompt_of(70, 1);
    for (int64_t turn = 0; turn < 3; ++turn) {
      sampler.submit({.prompt = prompt, .max_new_tokens = 9, .sampling = kDraws, .hold = true});
      all.push_back(finish_all(sampler).at(0));
      const Ids& answer = all.back().samples.at(0).ids;
      prompt.insert(prompt.end(), answer.begin(), answer.end());
      prompt.insert(prompt.end(), {3, 1, 4});
      if (turn == 1) model.weights_replaced(model.update_count);
    }
    EXPECT_EQ(sampler.counters().reused, 78) << "the second turn's alone";
    EXPECT_EQ(sampler.counters().stale, 1);
    return all;
  };
  expect_near(turns(*there_), turns(*model_));
}

TEST_F(SamplerDevice, SlowAnUpdateRecomputesTheKeysOfAnswersInProgress) {
  const auto updated = [](Model& model) {
    Sampler sampler(model);
    for (const SampleRequest& request : requests()) sampler.submit(request);
    for (int i = 0; i < 4; ++i) sampler.step();
    const at::NoGradGuard no_grad;
    for (Parameter& p : model.parameters()) p.master.mul_(1.1);
    ++model.update_count;
    return finish_all(sampler);
  };
  there_ = Model::load(dir_, {.dtype = at::kFloat, .trainable = true, .device = device_});
  expect_near(updated(*there_), updated(*model_));
}

TEST_F(SamplerDevice, AStepReadsTheDeviceOnce) {
  Sampler sampler(*there_);
  for (int64_t i = 0; i < 3; ++i) {
    sampler.submit({.prompt = prompt_of(70 + i, i), .samples = 4, .max_new_tokens = 30});
  }
  sampler.step();
  for (int i = 0; i < 8; ++i) {
    describe_waits();
    const DeviceWaits before = device_waits();
    sampler.step();
    EXPECT_EQ(device_waits().reads - before.reads, 1) << describe_waits();
    EXPECT_EQ(device_waits().writes, before.writes) << describe_waits();
  }
}

TEST_F(SamplerDevice, SlowEveryFamilyAnswersAsOnTheCpu) {
  for (const char* name : {"untied", "llama3_rope", "qwen2", "qwen3", "olmo2", "gpt2",
                           "qwen2_window", "dynamic", "longrope"}) {
    SCOPED_TRACE(name);
    const std::filesystem::path dir =
        std::filesystem::path(source_path("tests/golden/models")) / name;
    const auto here = load_model(dir, at::kFloat, false);
    const auto ids = [&](int64_t length, int64_t first) {
      Ids all;
      for (int64_t i = 0; i < length; ++i) {
        all.push_back(static_cast<int32_t>((first * 31 + i * i) % here->config().vocab));
      }
      return all;
    };
    const int64_t most = here->config().max_length;
    const std::vector<SampleRequest> asked = {
        {.prompt = ids(std::min<int64_t>(most / 2, 70), 1), .samples = 3, .max_new_tokens = 12},
        {.prompt = ids(5, 2), .samples = 2, .max_new_tokens = 20, .sampling = kDraws}};
    expect_near(sample(*open(dir, at::kFloat), asked), sample(*here, asked));
  }
}

// In bf16 a token may differ where two are nearly equal, so the log-probs are compared to those of
// the training forward.
TEST_F(SamplerDevice, LogProbsInBf16AreThoseOfTheForward) {
  const auto there = open(dir_, at::kBFloat16);
  model_ = load_model(dir_, at::kBFloat16, false);
  const std::vector<SampleRequest> asked = requests();
  const std::vector<SampledGroup> got = sample(*there, asked);
  for (size_t g = 0; g < asked.size(); ++g) {
    if (asked[g].sampling != kDraws) continue;
    for (const Generation& one : got[g].samples) {
      const std::vector<float> wanted = packed(asked[g].prompt, one.ids);
      for (size_t t = 0; t < wanted.size(); ++t) EXPECT_NEAR(one.logprobs[t], wanted[t], 1.5e-1);
    }
  }
}

TEST_F(SamplerDevice, ChoicesScoreAsOnTheCpu) {
  std::vector<ChoiceQuestion> questions;
  for (int64_t i = 0; i < 3; ++i) {
    questions.push_back({.prompt = prompt_of(9 + i, i),
                         .choices = {prompt_of(1, 4), prompt_of(3, 5), prompt_of(6, i)}});
  }
  const auto got = score_choices(*there_, questions, {}),
             want = score_choices(*model_, questions, {});
  for (size_t q = 0; q < want.size(); ++q) {
    for (size_t c = 0; c < want[q].size(); ++c) EXPECT_NEAR(got[q][c].sum, want[q][c].sum, 1e-4);
  }
}

// Pieces of a sequence, a fork and a cut, against the attention of the whole sequence.
TEST_F(SamplerDevice, ACacheOnTheDeviceMatchesThePack) {
  const at::NoGradGuard no_grad;
  ModelConfig config;
  config.layers = 2, config.heads = 6, config.kv_heads = 2, config.head_dim = 20;
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int64_t window : {0, 70}) {
      const at::Tensor q = random_tensor({200, 6, 20}, 1, 2).to(type);
      const at::Tensor k = random_tensor({200, 2, 20}, 2, 2).to(type);
      const at::Tensor v = random_tensor({200, 2, 20}, 3).to(type);
      const at::Tensor whole = varlen_attention(q, k, v, {{0, 200}, {}, window}, 0.3);
      KvCache cache(config, type, 0, device_);
      const auto append = [&](int64_t slot, int64_t from, int64_t to) {
        const AttentionLayout layout{{0, to - from}, {}, window};
        const auto piece = [&](const at::Tensor& x) {
          return x.narrow(0, from, to - from).to(device_);
        };
        cache.use_slots({slot});
        for (int64_t layer = 0; layer < 2; ++layer) {
          const at::Tensor y = cache.attend(layer, piece(q), piece(k), piece(v), layout, 0.3).cpu();
          EXPECT_LT(relative_difference(y, whole.narrow(0, from, to - from)),
                    type == at::kFloat ? 1e-5 : 5e-2)
              << type << ", window " << window << ", tokens " << from << " to " << to;
        }
        cache.advance(layout.cu_seqlens);
      };
      cache.open(0, 200);
      for (const int64_t to : {3, 64, 65, 150}) append(0, cache.length(0), to);
      cache.open(1, 200, 150);
      EXPECT_EQ(cache.bytes(), cache.slot_bytes(200) + cache.slot_bytes(200, 150));
      cache.fork(0, 1);
      append(1, 150, 200);
      cache.truncate(0, 100);  // its last block was shared
      append(0, 100, 200);
      cache.truncate(1, 190);
      append(1, 190, 200);
    }
  }
}

}  // namespace xrun::sampler_device_test
