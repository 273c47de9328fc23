// Forward, gradients and greedy continuations against transformers (model_goldens.py).

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <utility>

#include "core/model/generate.h"
#include "core/model/model.h"
#include "core/model/weights/safetensors.h"
#include "tests/core/model/golden_pack.h"
#include "tests/tensor_difference.h"
#include "tests/tree.h"

namespace xrun::model_golden_test {

namespace {

class ModelGoldenTest : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path dir() const {
    return std::filesystem::path(source_path("tests/golden/models")) / GetParam();
  }
  SafetensorsFile golden() const { return SafetensorsFile(dir() / "golden.safetensors"); }

  static PackInput input(const SafetensorsFile& golden) {
    return pack_sequences(golden_sequences(golden));
  }
};

INSTANTIATE_TEST_SUITE_P(Family, ModelGoldenTest,
                         testing::Values("untied", "tied_gqa", "llama3_rope", "linear_rope_bias",
                                         "qwen2", "qwen3", "gpt2", "gpt2_scaled", "yarn",
                                         "yarn_mscale", "qwen2_window", "dynamic", "longrope",
                                         "qwen3_moe", "qwen3_moe_fused", "qwen3_moe_window"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace

TEST_P(ModelGoldenTest, PackedLogitsMatchSeparateSequences) {
  const SafetensorsFile want = golden();
  const auto model = Model::load(dir(), at::kFloat, false);
  const at::NoGradGuard no_grad;
  const at::Tensor logits = model->forward(input(want)).matmul(model->head_weight().t());
  EXPECT_LT(largest_difference(logits, want.read("logits")), 1e-5);
}

TEST_P(ModelGoldenTest, LogProbsAndGradientsOfTheMeanLossAgree) {
  const SafetensorsFile want = golden();
  const auto model = Model::load(dir(), at::kFloat, true);
  const at::Tensor logprob =
      model->token_logprob(input(want), want.read("loss_index"), want.read("loss_target"));
  EXPECT_LT(largest_difference(logprob.detach(), want.read("logprob")), 1e-5);
  logprob.mean().neg().backward();
  int compared = 0;
  for (const Parameter& parameter : model->parameters()) {
    ASSERT_TRUE(parameter.master.grad().defined()) << parameter.name;
    if (!want.has("grad/" + parameter.name)) continue;
    const at::Tensor grad = want.read("grad/" + parameter.name);
    if (grad.abs().max().item<double>() < 1e-6) continue;  // a key's bias cancels in the softmax
    ++compared;
    EXPECT_LT(relative_difference(parameter.master.grad(), grad), 1e-4) << parameter.name;
  }
  EXPECT_GE(compared, 8);
}

TEST_P(ModelGoldenTest, GreedyContinuationsAreIdentical) {
  const SafetensorsFile want = golden();
  const auto model = Model::load(dir(), at::kFloat, false);
  std::vector<std::vector<int32_t>> prompts = golden_sequences(want);
  if (want.has("greedy_of")) {
    const std::vector<std::vector<int32_t>> all = std::move(prompts);
    const at::Tensor chosen = want.read("greedy_of");
    prompts.clear();
    for (int64_t i = 0; i < chosen.size(0); ++i) {
      prompts.push_back(all.at(static_cast<size_t>(chosen[i].item<int64_t>())));
    }
  }
  const std::vector<Generation> got =
      generate(*model, prompts, {.max_new_tokens = 12, .stop_ids = {}});
  const at::Tensor greedy = want.read("greedy");
  ASSERT_EQ(static_cast<int64_t>(got.size()), greedy.size(0));
  for (size_t s = 0; s < got.size(); ++s) {
    ASSERT_EQ(got[s].ids.size(), 12u);
    EXPECT_EQ(got[s].finish, "length");
    for (size_t t = 0; t < 12; ++t) {
      EXPECT_EQ(got[s].ids[t],
                greedy[static_cast<int64_t>(s)][static_cast<int64_t>(t)].item<int64_t>())
          << "sequence " << s << ", token " << t;
    }
  }
}

TEST_P(ModelGoldenTest, LogProbsOfASampleMatchTheForward) {
  const SafetensorsFile want = golden();
  const auto model = Model::load(dir(), at::kFloat, false);
  const at::NoGradGuard no_grad;
  std::vector<std::vector<int32_t>> prompts = golden_sequences(want);
  std::erase_if(prompts, [&](const auto& p) {
    return static_cast<int64_t>(p.size()) > model->config().max_length;
  });
  const std::vector<Generation> got = generate(*model, prompts, {.max_new_tokens = 12});
  for (size_t s = 0; s < got.size(); ++s) {
    std::vector<int32_t> sequence = prompts[s];
    for (size_t t = 0; t < got[s].ids.size(); ++t) {
      const at::Tensor last = at::tensor({static_cast<int64_t>(sequence.size()) - 1}, at::kLong);
      const at::Tensor target = at::tensor({int64_t{got[s].ids[t]}}, at::kLong);
      const at::Tensor logprob = model->token_logprob(pack_sequences({sequence}), last, target);
      EXPECT_NEAR(got[s].logprobs[t], logprob.item<float>(), 1e-4) << s << " " << t;
      sequence.push_back(got[s].ids[t]);
    }
  }
}

TEST_P(ModelGoldenTest, SegmentsNeverSeeEachOther) {
  const at::NoGradGuard no_grad;
  const auto model = Model::load(dir(), at::kFloat, false);
  std::vector<std::vector<int32_t>> all = golden_sequences(golden());
  const at::Tensor a = model->forward(pack_sequences(all));
  for (int32_t& id : all[2]) id = (id + 1) % 131;
  const at::Tensor b = model->forward(pack_sequences(all));
  // An expert's product runs over all its tokens; another number of rows rounds differently.
  const double tolerance = model->config().moe.experts > 0 ? 1e-5 : 0;
  EXPECT_LE(largest_difference(a.narrow(0, 0, 8), b.narrow(0, 0, 8)), tolerance);
  EXPECT_LE(largest_difference(a.narrow(0, 21, 21), b.narrow(0, 21, 21)), tolerance);
  EXPECT_FALSE(a.narrow(0, 8, 1).equal(b.narrow(0, 8, 1)));
}

TEST_P(ModelGoldenTest, Bf16StaysWithinItsTolerance) {
  const SafetensorsFile want = golden();
  for (const LoadOptions& options :
       {LoadOptions{.dtype = at::kBFloat16}, LoadOptions{.dtype = at::kBFloat16, .trainable = true},
        LoadOptions{.dtype = at::kBFloat16, .gemm = GemmType::kFloat, .trainable = true}}) {
    const auto model = Model::load(dir(), options);
    const at::Tensor hidden = model->forward(input(want));
    EXPECT_EQ(hidden.scalar_type(), at::kBFloat16);
    const at::Tensor logits =
        hidden.detach().to(at::kFloat).matmul(model->head_weight().detach().to(at::kFloat).t());
    const at::Tensor golden_logits = want.read("logits");
    const double worst = relative_difference(logits, golden_logits);
    EXPECT_LT(worst, 0.05);
    EXPECT_GT(worst, 1e-5) << "is this bf16 at all?";
  }
}

}  // namespace xrun::model_golden_test
