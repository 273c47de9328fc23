// The sampler's log-probs of its tokens are those of the training forward, for the golden
// checkpoints of every family.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "core/model/generate.h"
#include "core/model/model.h"
#include "core/model/ops/rope.h"
#include "core/model/weights/safetensors.h"
#include "tests/core/model/golden_pack.h"
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
  const auto model = Model::load(models() / GetParam(), at::kFloat, false);
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

}  // namespace xrun::generate_golden_test
