// Forward, gradients and greedy continuations against transformers (model_goldens.py); forward and
// gradients also of the sequences folded into trees.

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <tuple>
#include <utility>

#include "core/model/model.h"
#include "core/model/weights/safetensors.h"
#include "core/rollout/generate.h"
#include "tests/core/model/golden_pack.h"
#include "tests/core/model/load_model.h"
#include "tests/golden_models.h"
#include "tests/parity.h"
#include "tests/tensor_difference.h"
#include "tests/tree.h"

namespace xrun::model_golden_test {

namespace {

// A family, and whether the sequences are folded.
using GoldenCase = std::tuple<std::string, bool>;

class ModelGoldenTest : public testing::TestWithParam<GoldenCase> {
 protected:
  std::filesystem::path dir() const {
    return std::filesystem::path(source_path("tests/golden/models")) / std::get<0>(GetParam());
  }
  SafetensorsFile golden() const { return SafetensorsFile(dir() / "golden.safetensors"); }
  GoldenPack pack(const SafetensorsFile& golden, const Model& model) const {
    return golden_pack(golden_sequences(golden), model.config(), std::get<1>(GetParam()));
  }
};

// Tests of folded packs, for the families that support them.
class FoldedGoldenTest : public ModelGoldenTest {};

// Tests of decoding, which has no trees, and of segments.
class SequenceGoldenTest : public ModelGoldenTest {};

const auto kFamilies = testing::ValuesIn(
    golden_models({"untied", "llama3_rope", "linear_rope_bias", "qwen2", "gpt2_scaled", "yarn",
                   "yarn_mscale", "dynamic", "longrope", "qwen3_moe_fused", "qwen3_moe_window"}));

std::string name_of(const testing::TestParamInfo<GoldenCase>& info) {
  return std::get<0>(info.param) + (std::get<1>(info.param) ? "_folded" : "");
}

INSTANTIATE_TEST_SUITE_P(Family, ModelGoldenTest, testing::Combine(kFamilies, testing::Bool()),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Family, FoldedGoldenTest,
                         testing::Combine(kFamilies, testing::Values(true)), name_of);
INSTANTIATE_TEST_SUITE_P(Family, SequenceGoldenTest,
                         testing::Combine(kFamilies, testing::Values(false)), name_of);

}  // namespace

TEST_P(ModelGoldenTest, PackedLogitsMatchSeparateSequences) {
  const SafetensorsFile want = golden();
  const auto model = load_model(dir(), at::kFloat, false);
  const at::NoGradGuard no_grad;
  const GoldenPack golden = pack(want, *model);
  const at::Tensor logits = model->forward(golden.input).matmul(model->head_weight().t());
  for (const at::Tensor& rows : golden.rows) {
    const double apart = largest_difference(logits.index_select(0, rows), want.read("logits"));
    EXPECT_LT(apart, 1e-5);
    note_parity(apart, 1e-5);
  }
}

TEST_P(ModelGoldenTest, LogProbsAndGradientsOfTheMeanLossAgree) {
  const SafetensorsFile want = golden();
  const auto model = load_model(dir(), at::kFloat, true);
  const GoldenPack golden = pack(want, *model);
  std::vector<at::Tensor> index, target, expected;
  for (const at::Tensor& rows : golden.rows) {
    index.push_back(rows.index_select(0, want.read("loss_index")));
    target.push_back(want.read("loss_target"));
    expected.push_back(want.read("logprob"));
  }
  const at::Tensor logprob = model->token_logprob(golden.input, at::cat(index), at::cat(target));
  const double apart = largest_difference(logprob.detach(), at::cat(expected));
  EXPECT_LT(apart, 1e-5);
  note_parity(apart, 1e-5);
  logprob.mean().neg().backward();
  int compared = 0;
  for (const Parameter& parameter : model->parameters()) {
    ASSERT_TRUE(parameter.master.grad().defined()) << parameter.name;
    if (!want.has("grad/" + parameter.name)) continue;
    const at::Tensor grad = want.read("grad/" + parameter.name);
    if (grad.abs().max().item<double>() < 1e-6) continue;  // a key's bias cancels in the softmax
    ++compared;
    const double relative = relative_difference(parameter.master.grad(), grad);
    EXPECT_LT(relative, 1e-4) << parameter.name;
    note_parity(relative, 1e-4);
  }
  EXPECT_GE(compared, 8);
}

// Windows, YaRN, classes of frequencies and experts included.
TEST_P(FoldedGoldenTest, TokensHaveTheBitsOfTheirSequencesAloneUnderAnyThreadCount) {
  const auto model = load_model(dir(), at::kFloat, false);
  const at::NoGradGuard no_grad;
  const std::vector<std::vector<int32_t>> sequences = golden_sequences(golden());
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  std::vector<at::Tensor> each;
  for (const auto& sequence : sequences) each.push_back(model->forward(pack_sequences({sequence})));
  const at::Tensor alone = at::cat(each);
  const GoldenPack folded = golden_pack(sequences, model->config(), true);
  const PackInput packed = pack_sequences(sequences);
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    EXPECT_TRUE(model->forward(packed).equal(alone)) << count;
    const at::Tensor hidden = model->forward(folded.input);
    for (const at::Tensor& rows : folded.rows) {
      EXPECT_TRUE(hidden.index_select(0, rows).equal(alone)) << count;
    }
  }
  at::set_num_threads(threads);
}

TEST_P(SequenceGoldenTest, GreedyContinuationsAreIdentical) {
  const SafetensorsFile want = golden();
  const auto model = load_model(dir(), at::kFloat, false);
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

TEST_P(SequenceGoldenTest, LogProbsOfASampleMatchTheForward) {
  const SafetensorsFile want = golden();
  const auto model = load_model(dir(), at::kFloat, false);
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

TEST_P(SequenceGoldenTest, SegmentsNeverSeeEachOther) {
  const at::NoGradGuard no_grad;
  const auto model = load_model(dir(), at::kFloat, false);
  std::vector<std::vector<int32_t>> all = golden_sequences(golden());
  const at::Tensor a = model->forward(pack_sequences(all));
  for (int32_t& id : all[2]) id = (id + 1) % 131;
  const at::Tensor b = model->forward(pack_sequences(all));
  EXPECT_TRUE(a.narrow(0, 0, 8).equal(b.narrow(0, 0, 8)));
  EXPECT_TRUE(a.narrow(0, 21, 21).equal(b.narrow(0, 21, 21)));
  EXPECT_FALSE(a.narrow(0, 8, 1).equal(b.narrow(0, 8, 1)));
}

TEST_P(ModelGoldenTest, Bf16StaysWithinItsTolerance) {
  const SafetensorsFile want = golden();
  for (const LoadOptions& options :
       {LoadOptions{.dtype = at::kBFloat16}, LoadOptions{.dtype = at::kBFloat16, .trainable = true},
        LoadOptions{.dtype = at::kBFloat16, .gemm = GemmType::kFloat, .trainable = true}}) {
    const auto model = Model::load(dir(), options);
    const GoldenPack golden = pack(want, *model);
    const at::Tensor hidden = model->forward(golden.input).index_select(0, golden.rows.back());
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
