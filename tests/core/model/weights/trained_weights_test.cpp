// Training a part of the weights: patterns, and the gradients of the part.

#include "core/model/weights/trained_weights.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/model/model.h"
#include "core/model/weights/hf_config.h"
#include "tests/error_of.h"
#include "tests/tree.h"

namespace xrun::trained_weights_test {
namespace {

std::string folder(const std::string& name = "untied") {
  return source_path("tests/golden/models/" + name);
}

// Name and gradient of every trained weight after the backward of a mean log-prob.
std::vector<std::pair<std::string, at::Tensor>> gradients(const std::string& dir,
                                                          const LoadOptions& options) {
  const auto model = Model::load(dir, options);
  const PackInput input = pack_sequences({{1, 5, 9, 2, 7, 3}, {4, 4, 8}});
  const at::Tensor rows = int64_tensor(std::vector<int64_t>{0, 1, 2, 3, 6, 7});
  model->token_logprob(input, rows, int64_tensor(std::vector<int64_t>{5, 9, 2, 7, 4, 8}))
      .sum()
      .backward();
  std::vector<std::pair<std::string, at::Tensor>> out;
  for (const Parameter& parameter : model->trained_parameters()) {
    out.emplace_back(parameter.name, parameter.master.grad());
  }
  for (const Parameter& parameter : model->parameters()) {
    if (!is_trained(options.train, parameter.name)) {
      EXPECT_FALSE(parameter.master.grad().defined()) << parameter.name;
      EXPECT_EQ(parameter.master.scalar_type(), options.dtype) << parameter.name;
    }
  }
  return out;
}

TEST(TrainedWeights, AStarMatchesAnyCharacters) {
  EXPECT_TRUE(is_trained({"*.mlp.*"}, "model.layers.0.mlp.up_proj.weight"));
  EXPECT_FALSE(is_trained({"*.mlp.*"}, "model.layers.0.self_attn.q_proj.weight"));
  EXPECT_FALSE(is_trained({"mlp"}, "model.layers.0.mlp.up_proj.weight"));
  EXPECT_TRUE(is_trained({}, "anything"));
}

// The gradients of a part are those of the whole, bit for bit.
TEST(TrainedWeights, HaveTheGradientsOfTheWholeModel) {
  const std::vector<std::vector<std::string>> patterns = {
      {"*.mlp.*"},          {"*norm*"},       {"*embed*"},
      {"*.layers.0.*"},     {"*.layers.1.*"}, {"*q_proj*", "*down*"},
      {"model.norm.weight"}};
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const bool recompute : {false, true}) {
      LoadOptions options{.dtype = dtype, .trainable = true, .recompute = recompute};
      const auto all = gradients(folder(), options);
      for (const auto& pattern : patterns) {
        options.train = pattern;
        const auto part = gradients(folder(), options);
        ASSERT_FALSE(part.empty()) << pattern.front();
        EXPECT_LT(part.size(), all.size());
        for (const auto& [name, gradient] : part) {
          for (const auto& [other, wanted] : all) {
            if (other == name) {
              EXPECT_TRUE(at::equal(gradient, wanted)) << name;
            }
          }
        }
      }
    }
  }
}

TEST(TrainedWeights, OnlyTheElementsOfMatchesCount) {
  const ModelConfig config = read_model_config(folder());
  double sum = 0;
  const auto model = Model::load(folder(), {.trainable = true, .train = {"*.mlp.*"}});
  for (const Parameter& parameter : model->trained_parameters()) {
    sum += static_cast<double>(parameter.master.numel());
  }
  EXPECT_EQ(trained_elements(config, {"*.mlp.*"}), sum);
}

TEST(TrainedWeights, AnUnknownPatternNamesTheNearest) {
  const ModelConfig config = read_model_config(folder());
  const std::string error = error_of([&] { check_train_patterns(config, {"*.mpl.*"}); });
  EXPECT_TRUE(error.starts_with("train: \"*.mpl.*\" matches none of the model's ")) << error;
  EXPECT_NE(error.find("did you mean \"*.mlp.*\"?"), std::string::npos) << error;
  EXPECT_NE(error.find("their names are built from these parts: model, embed_tokens"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("; for example model.layers."), std::string::npos) << error;
  check_train_patterns(config, {"*.mlp.*", "*"});
}

TEST(TrainedWeights, ATiedHeadIsNamed) {
  const ModelConfig config = read_model_config(folder("tied_gqa"));
  for (const char* pattern : {"lm_head.*", "*head*"}) {
    EXPECT_EQ(error_of([&] { check_train_patterns(config, {pattern}); }),
              fmt::format("train: \"{}\" matches the head, which is tied to "
                          "model.embed_tokens.weight; name that instead",
                          pattern));
  }
  check_train_patterns(config, {"*embed_tokens*"});
  check_train_patterns(read_model_config(folder()), {"lm_head.*"});
}

}  // namespace
}  // namespace xrun::trained_weights_test
