// Frequencies of every rope type against transformers (rope_frequencies.py), and of packs.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/json.h"
#include "core/model/ops/rope.h"
#include "core/model/weights/hf_config.h"
#include "tests/parity.h"
#include "tests/tree.h"

namespace xrun::rope_frequencies_test {

namespace {

RopeConfig longrope() {
  return {.type = RopeConfig::Type::kLongrope,
          .short_factor = {1.0, 1.2},
          .long_factor = {1.5, 4.0},
          .attention_factor = 1.25,
          .original_max_length = 8};
}

}  // namespace

TEST(Rope, EveryTypeGivesTransformersFrequencies) {
  const std::string path = source_path("tests/golden/rope_frequencies.json");
  const Json golden = read_json(path);
  ASSERT_GE(golden.as_array().size(), 14u);
  for (const Json& row : golden.as_array()) {
    const ModelConfig config = parse_model_config(row.at("config"), Json::object(), "golden");
    const int64_t length = row.at("length").as_int();
    const at::Tensor got = rope_inverse_frequencies(config.rope, config.head_dim, length);
    const Json::Array& want = row.at("inverse").as_array();
    ASSERT_EQ(got.size(0), static_cast<int64_t>(want.size()));
    for (size_t i = 0; i < want.size(); ++i) {
      const double value = want[i].as_double();
      SCOPED_TRACE(fmt::format("{} {}", dump_json(row), i));
      expect_parity(got[static_cast<int64_t>(i)].item<double>(), value, 1e-6 * value);
    }
    EXPECT_NEAR(config.rope.attention_factor, row.at("attention_factor").as_double(), 1e-9);
  }
}

TEST(Rope, Llama3StretchesLongWavesOnly) {
  const RopeConfig config{.type = RopeConfig::Type::kLlama3,
                          .theta = 500000.0,
                          .factor = 8.0,
                          .original_max_length = 8192};
  const at::Tensor plain = rope_inverse_frequencies({.theta = 500000.0}, 64, 1);
  const at::Tensor stretched = rope_inverse_frequencies(config, 64, 1);
  const at::Tensor ratio = stretched / plain;
  EXPECT_EQ(ratio[0].item<float>(), 1.0f);
  EXPECT_NEAR(ratio[31].item<float>(), 1.0 / 8, 1e-6);
  int between = 0;
  for (int64_t i = 0; i < 32; ++i) {
    const float r = ratio[i].item<float>();
    between += r > 0.1251f && r < 0.9999f;
  }
  EXPECT_GT(between, 0);
}

TEST(Rope, ASegmentsFrequenciesDoNotDependOnItsNeighbours) {
  const RopeConfig rope = longrope();
  const at::Tensor five = at::arange(5, at::kLong), twelve = at::arange(12, at::kLong);
  const RopeAngles both =
      rope_angles(rope, 4, {at::cat({five, twelve}), {0, 5, 5, 17}}, at::kFloat);
  const RopeAngles brief = rope_angles(rope, 4, {five, {0, 5}}, at::kFloat);
  const RopeAngles longer = rope_angles(rope, 4, {twelve, {0, 12}}, at::kFloat);
  EXPECT_TRUE(both.cos.narrow(0, 0, 5).equal(brief.cos));
  EXPECT_TRUE(both.sin.narrow(0, 5, 12).equal(longer.sin));
  EXPECT_FALSE(longer.sin.narrow(0, 0, 5).equal(brief.sin));
}

TEST(Rope, ANodesFrequenciesFollowTheLengthItIsGiven) {
  const RopeConfig rope = longrope();
  const at::Tensor five = at::arange(5, at::kLong), twelve = at::arange(12, at::kLong);
  const RopeAngles node = rope_angles(rope, 4, {five, {0, 5}, {12}}, at::kFloat);
  const RopeAngles whole = rope_angles(rope, 4, {twelve, {0, 12}}, at::kFloat);
  EXPECT_TRUE(node.cos.equal(whole.cos.narrow(0, 0, 5)));
  EXPECT_TRUE(node.sin.equal(whole.sin.narrow(0, 0, 5)));
}

TEST(Rope, TheAttentionFactorScalesBothTables) {
  const RopeAngles angles =
      rope_angles(longrope(), 4, {at::arange(3, at::kLong), {0, 3}}, at::kFloat);
  EXPECT_EQ(angles.cos[0][0].item<float>(), 1.25f);
  EXPECT_NEAR(angles.sin[1][0].item<float>(), 1.25 * std::sin(1.0), 1e-6);
}

}  // namespace xrun::rope_frequencies_test
