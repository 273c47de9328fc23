// Whole models on a GPU against transformers' goldens (tests/golden/make/model_goldens.py).

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/model/model.h"
#include "core/model/weights/safetensors.h"
#include "tests/core/model/golden_pack.h"
#include "tests/gpu/plugin.h"
#include "tests/tensor_difference.h"
#include "tests/tree.h"

namespace xrun::model_cuda_test {
namespace {

class ModelCuda : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (cuda_plugin() == nullptr) GTEST_SKIP() << "no CUDA driver";
  }
  std::filesystem::path dir() const {
    return std::filesystem::path(source_path("tests/golden/models")) / GetParam();
  }
  std::shared_ptr<Model> load(at::ScalarType type, bool trainable) const {
    return Model::load(dir(),
                       {.dtype = type, .trainable = trainable, .device = at::Device(at::kCUDA, 0)});
  }
  static PackInput input(const SafetensorsFile& golden) {
    return pack_sequences(golden_sequences(golden));
  }
};

TEST_P(ModelCuda, LogitsMatchTheGolden) {
  const SafetensorsFile golden(dir() / "golden.safetensors");
  const at::NoGradGuard no_grad;
  const at::Tensor wanted = golden.read("logits");
  const double scale = wanted.abs().max().item<double>();
  for (const auto& [type, tolerance] : {std::pair{at::kFloat, 1e-4}, {at::kBFloat16, 5e-2}}) {
    const auto model = load(type, false);
    const at::Tensor logits = model->forward(input(golden)).matmul(model->head_weight().t());
    EXPECT_LT(largest_difference(logits, wanted), tolerance * std::max(1.0, scale)) << type;
  }
}

TEST_P(ModelCuda, LogProbsAndGradientsAgree) {
  const SafetensorsFile golden(dir() / "golden.safetensors");
  const auto model = load(at::kFloat, true);
  const at::Tensor logprob = model->token_logprob(input(golden), golden.read("loss_index").cuda(),
                                                  golden.read("loss_target").cuda());
  EXPECT_LT(largest_difference(logprob, golden.read("logprob")), 1e-4);
  logprob.mean().neg().backward();
  for (const Parameter& parameter : model->parameters()) {
    ASSERT_TRUE(parameter.master.grad().is_cuda()) << parameter.name;
    if (!golden.has("grad/" + parameter.name)) continue;
    const at::Tensor wanted = golden.read("grad/" + parameter.name);
    const double scale = wanted.abs().max().item<double>();
    if (scale < 1e-6) continue;  // a key's bias cancels in the softmax
    EXPECT_LT(largest_difference(parameter.master.grad(), wanted) / scale, 1e-3) << parameter.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Family, ModelCuda,
                         testing::Values("untied", "tied_gqa", "llama3_rope", "linear_rope_bias",
                                         "qwen2", "qwen3", "olmo2", "gpt2", "yarn", "qwen2_window",
                                         "dynamic", "longrope"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace xrun::model_cuda_test
