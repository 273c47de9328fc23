// The sampler's log-probs of its tokens are those of the training forward, for the golden
// checkpoints of every family, in one turn and in several.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "core/base/error.h"
#include "core/model/model.h"
#include "core/model/ops/linear_head.h"
#include "core/model/ops/moe_routing.h"
#include "core/model/ops/rope.h"
#include "core/model/weights/safetensors.h"
#include "core/rollout/generate.h"
#include "tests/core/model/golden_pack.h"
#include "tests/core/model/load_model.h"
#include "tests/tree.h"

namespace xrun::generate_golden_test {

namespace {

std::filesystem::path models() { return std::filesystem::path(source_path("tests/golden/models")); }

std::vector<std::string> golden_models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(models())) {
    if (std::filesystem::exists(entry.path() / "golden.safetensors"))
      names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The prompts that the model can continue.
std::vector<std::vector<int32_t>> prompts_of(const SafetensorsFile& golden, const Model& model) {
  std::vector<std::vector<int32_t>> prompts = golden_sequences(golden);
  std::erase_if(prompts, [&](const std::vector<int32_t>& one) {
    return static_cast<int64_t>(one.size()) > model.config().max_length;
  });
  return prompts;
}

class GenerateGoldenTest : public testing::TestWithParam<std::string> {
 protected:
  // Compares every reported log-prob with a forward over the tokens before it.
  static void expect_forward_says(Model& model, const std::vector<int32_t>& prompt,
                                  const Generation& got, double temperature) {
    const at::NoGradGuard no_grad;
    std::vector<int32_t> sequence = prompt;
    sequence.insert(sequence.end(), got.ids.begin(), got.ids.end() - 1);
    const at::Tensor all = logprobs(model, sequence, temperature);
    for (size_t t = 0; t < got.ids.size(); ++t) {
      const size_t last = prompt.size() + t - 1;
      // Frequencies that depend on the length use the length at that token.
      const at::Tensor row =
          rope_by_length(model.config().rope)
              ? logprobs(model, {sequence.begin(), sequence.begin() + last + 1}, temperature)[-1]
              : all[static_cast<int64_t>(last)];
      EXPECT_NEAR(got.logprobs[t], row[got.ids[t]].item<float>(), 1e-4) << t;
    }
  }
  static at::Tensor logprobs(Model& model, const std::vector<int32_t>& sequence,
                             double temperature) {
    const at::Tensor hidden = model.forward(pack_sequences({sequence}));
    return at::log_softmax(hidden.matmul(model.head_weight().t()) / temperature, -1);
  }
};

INSTANTIATE_TEST_SUITE_P(Family, GenerateGoldenTest, testing::ValuesIn(golden_models()),
                         [](const auto& info) { return info.param; });

}  // namespace

TEST_P(GenerateGoldenTest, LogProbsMatchTheTrainingForward) {
  const SafetensorsFile golden(models() / GetParam() / "golden.safetensors");
  const auto model = load_model(models() / GetParam(), at::kFloat, false);
  const std::vector<std::vector<int32_t>> prompts = prompts_of(golden, *model);
  for (const SamplingOptions& sampling :
       {SamplingOptions{}, SamplingOptions{.temperature = 1},
        SamplingOptions{.temperature = 1.3, .top_k = 20, .top_p = 0.9, .seed = 2}}) {
    const std::vector<Generation> got = generate(
        *model, prompts, {.max_new_tokens = 12, .batch = 3, .sampling = sampling, .samples = 2});
    ASSERT_EQ(got.size(), prompts.size() * 2);
    for (size_t s = 0; s < got.size(); ++s) {
      SCOPED_TRACE(fmt::format("temperature {}, sequence {}", sampling.temperature, s));
      expect_forward_says(*model, prompts[s / 2], got[s],
                          sampling.temperature > 0 ? sampling.temperature : 1.0);
      EXPECT_EQ(got[s].logprobs_kept.size(), sampling.truncates() ? got[s].ids.size() : 0);
    }
  }
}

TEST_P(GenerateGoldenTest, DraftsChangeNoAnswer) {
  const SafetensorsFile golden(models() / GetParam() / "golden.safetensors");
  const auto model = load_model(models() / GetParam(), at::kFloat, false);
  const std::vector<std::vector<int32_t>> prompts = prompts_of(golden, *model);
  for (const double temperature : {0.0, 1.0}) {
    std::vector<std::vector<int32_t>> drafts(prompts.size());
    std::vector<Generation> want;
    for (const bool with_drafts : {false, true}) {
      Sampler sampler(*model, {.batch = 3});
      for (size_t p = 0; p < prompts.size(); ++p) {
        SampleRequest request{.prompt = prompts[p],
                              .max_new_tokens = 14,
                              .sampling = {.temperature = temperature},
                              .prompt_key = p};
        if (with_drafts) request.drafts = {drafts[p]};
        sampler.submit(std::move(request));
      }
      while (sampler.step()) {
      }
      for (size_t p = 0; p < prompts.size(); ++p) {
        const Generation made = sampler.poll().value().samples.at(0);
        drafts[p] = made.ids;
        if (p % 2 == 1 && made.ids.size() > 5) {  // every other draft is wrong
          drafts[p][5] = (drafts[p][5] + 1) % 7;
        }
        if (!with_drafts) {
          want.push_back(made);
          continue;
        }
        EXPECT_EQ(made.ids, want[p].ids) << p;
        EXPECT_EQ(made.logprobs, want[p].logprobs) << p;
      }
      EXPECT_EQ(sampler.counters().accepted > 0, with_drafts);
    }
  }
}

TEST_P(GenerateGoldenTest, ChunksOfAPromptChangeNoBit) {
  const SafetensorsFile golden(models() / GetParam() / "golden.safetensors");
  const auto model = load_model(models() / GetParam(), at::kFloat, false);
  const std::vector<std::vector<int32_t>> prompts = prompts_of(golden, *model);
  std::vector<Generation> want;
  for (const int64_t chunk : {4096, 3, 7}) {
    Sampler sampler(*model, {.batch = 3, .prefill_tokens = chunk});
    for (size_t p = 0; p < prompts.size(); ++p) {
      sampler.submit({.prompt = prompts[p],
                      .max_new_tokens = 6,
                      .sampling = {.temperature = 1},
                      .prompt_key = p,
                      .record_routes = true});
    }
    while (sampler.step()) {
    }
    for (size_t p = 0; p < prompts.size(); ++p) {
      SCOPED_TRACE(fmt::format("chunks of {}, prompt {}", chunk, p));
      const Generation made = sampler.poll().value().samples.at(0);
      if (chunk == 4096) {
        want.push_back(made);
        continue;
      }
      EXPECT_EQ(made.ids, want[p].ids);
      EXPECT_EQ(made.logprobs, want[p].logprobs);
      ASSERT_NE(made.routes, nullptr);
      EXPECT_EQ(made.routes->experts, want[p].routes->experts);
    }
  }
}

TEST_P(GenerateGoldenTest, LogProbsOfSeveralTurnsAreTheBitsOfOnePackedForward) {
  constexpr int64_t kTurns = 3, kAnswer = 3, kSamples = 2;
  constexpr double kTemperature = 1.1;
  const std::vector<int32_t> message = {3, 1};  // of the environment, after each answer
  const SafetensorsFile golden(models() / GetParam() / "golden.safetensors");
  const auto model = load_model(models() / GetParam(), at::kFloat, false);
  std::vector<std::vector<int32_t>> histories;
  for (std::vector<int32_t>& prompt : golden_sequences(golden)) {
    const int64_t room = model->config().max_length - kTurns * (kAnswer + std::ssize(message));
    prompt.resize(std::min(prompt.size(), static_cast<size_t>(room)));
    for (int64_t s = 0; s < kSamples; ++s) histories.push_back(prompt);
  }
  struct GoldenToken {
    int64_t position;  // in its history
    float logprob;
  };
  std::vector<std::vector<GoldenToken>> sampled(histories.size());
  Sampler sampler(*model, {.batch = 3});
  for (int64_t turn = 0; turn < kTurns; ++turn) {
    for (size_t h = 0; h < histories.size(); ++h) {
      sampler.submit({.prompt = histories[h],
                      .max_new_tokens = kAnswer,
                      .sampling = {.temperature = kTemperature, .seed = 5},
                      .prompt_key = h,
                      .hold = true});
    }
    while (sampler.step()) {
    }
    for (size_t h = 0; h < histories.size(); ++h) {
      const Generation made = sampler.poll().value().samples.at(0);
      for (size_t t = 0; t < made.ids.size(); ++t) {
        sampled[h].push_back({std::ssize(histories[h]), made.logprobs[t]});
        histories[h].push_back(made.ids[t]);
      }
      histories[h].insert(histories[h].end(), message.begin(), message.end());
    }
  }
  EXPECT_GT(sampler.counters().reused, 0);
  const at::NoGradGuard no_grad;
  const PackInput pack = pack_sequences(histories);
  std::vector<int64_t> index, target;
  std::vector<float> got;
  for (size_t h = 0; h < histories.size(); ++h) {
    const RopeConfig& rope = model->config().rope;
    const auto frequencies = [&](int64_t length) { return rope_frequency_class(rope, length); };
    for (const GoldenToken& token : sampled[h]) {
      // An answer that ends before the frequencies change has those of its length.
      if (frequencies(token.position) != frequencies(std::ssize(histories[h]))) continue;
      index.push_back(pack.cu_seqlens[h] + token.position - 1);
      target.push_back(histories[h][static_cast<size_t>(token.position)]);
      got.push_back(token.logprob);
    }
  }
  ASSERT_GT(got.size(), 5u);
  const at::Tensor want = model
                              ->head(model->forward(pack), int64_tensor(index),
                                     int64_tensor(target), {.temperature = kTemperature})
                              .logprob;
  for (size_t t = 0; t < got.size(); ++t) {
    EXPECT_EQ(got[t], want[static_cast<int64_t>(t)].item<float>()) << "token " << t;
  }
}

}  // namespace xrun::generate_golden_test
