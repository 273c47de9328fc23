// Draws: kept tokens against transformers (sampling_goldens.py), frequencies, draw keys.

#include "core/model/sampling.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/base/json.h"
#include "tests/error_of.h"
#include "tests/parity.h"
#include "tests/tree.h"

namespace xrun::sampling_test {

namespace {

double number(const Json& options, const char* name, double otherwise) {
  const Json* value = options.find(name);
  return value == nullptr ? otherwise : value->as_double();
}

SamplingOptions options_of(const Json& j) {
  return {.temperature = number(j, "temperature", 1),
          .top_k = static_cast<int64_t>(number(j, "top_k", 0)),
          .top_p = number(j, "top_p", 1),
          .min_p = number(j, "min_p", 0)};
}

at::Tensor row_of(const Json& values) {
  std::vector<float> row;
  for (const Json& x : values.as_array()) row.push_back(static_cast<float>(x.as_double()));
  return at::tensor(row);
}

DrawnToken draw_one(const at::Tensor& row, const DrawKey& key, const SamplingOptions& options) {
  return draw_tokens(row.clone().unsqueeze(0), {&key, 1}, options)[0];
}

std::string message(const SamplingOptions& options, const char* name = "") {
  try {
    check_sampling(options, name);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST(Sampling, KeepsTheSameTokensAsTransformers) {
  const Json golden = read_json(source_path("tests/golden/sampling.json"));
  ASSERT_GE(golden.at("cases").as_array().size(), 440u);
  for (const Json& one : golden.at("cases").as_array()) {
    const SamplingOptions options = options_of(one.at("options"));
    const auto row_index = static_cast<size_t>(one.at("row").as_int());
    const at::Tensor row = row_of(golden.at("rows").as_array()[row_index]);
    std::vector<int32_t> want;
    for (const Json& id : one.at("kept").as_array()) {
      want.push_back(static_cast<int32_t>(id.as_int()));
    }
    ASSERT_EQ(kept_tokens(row, options), want) << dump_json(one);
    for (uint64_t position = 0; position < 5; ++position) {
      const DrawnToken draw = draw_one(row, {.position = position}, options);
      const double x = row[draw.id].item<double>() / options.temperature;
      SCOPED_TRACE(dump_json(one));
      expect_parity(draw.logprob, x - one.at("lse").as_double(), 2e-5);
      expect_parity(draw.logprob_kept, x - one.at("lse_kept").as_double(), 2e-5);
      EXPECT_TRUE(std::find(want.begin(), want.end(), draw.id) != want.end());
    }
  }
}

TEST(Sampling, TheOrderIsTemperatureTopKTopPMinP) {
  // probabilities 0.4, 0.3, 0.2, 0.1: of the first two top p 0.55 keeps one (4/7), of all four two
  const at::Tensor row = at::tensor({0.4, 0.3, 0.2, 0.1}).to(at::kFloat).log();
  EXPECT_EQ(kept_tokens(row, {.temperature = 1, .top_k = 2, .top_p = 0.55}),
            std::vector<int32_t>({0}));
  EXPECT_EQ(kept_tokens(row, {.temperature = 1, .top_p = 0.55}), std::vector<int32_t>({0, 1}));
  // The temperature is applied first; a high one makes them alike.
  EXPECT_EQ(kept_tokens(row, {.temperature = 10, .top_p = 0.55}).size(), 3u);
  EXPECT_EQ(kept_tokens(row, {.temperature = 1, .min_p = 0.6}), std::vector<int32_t>({0, 1}));
  EXPECT_EQ(kept_tokens(row, {.temperature = 10, .min_p = 0.6}).size(), 4u);
}

TEST(Sampling, EqualLogitsKeepTheLowestIds) {
  const at::Tensor row = at::tensor({1.0f, 2.0f, 2.0f, 0.0f, 2.0f, 2.0f});
  EXPECT_EQ(kept_tokens(row, {.temperature = 1, .top_k = 3}), std::vector<int32_t>({1, 2, 4}));
  EXPECT_EQ(kept_tokens(at::full({9}, 3.0f), {.temperature = 1, .top_p = 0.5}),
            std::vector<int32_t>({0, 1, 2, 3, 4}));
  EXPECT_EQ(kept_tokens(row, {.temperature = 1, .top_k = 100}).size(), 6u);
}

TEST(Sampling, TemperatureZeroPicksTheLowestIdOfTheLikeliest) {
  const DrawnToken draw = draw_one(at::tensor({1.0f, 3.0f, 0.0f, 3.0f}), {}, {});
  EXPECT_EQ(draw.id, 1);
  EXPECT_NEAR(draw.logprob, 3 - std::log(2 * std::exp(3) + std::exp(1) + 1), 1e-6);
  EXPECT_EQ(draw.logprob, draw.logprob_kept);
}

// Pearson's statistic over 20,000 draws of 12 tokens: 11 degrees of freedom, below 31.3 with
// probability 0.999; the draws are fixed.
TEST(Sampling, FrequenciesMatchTheSoftmax) {
  const int64_t draws = 20000, width = 12;
  const at::Tensor row =
      at::tensor({0.1, 1.2, -0.4, 2.0, 0.7, -1.5, 0.0, 1.9, -0.2, 0.4, 1.1, -3.0}).to(at::kFloat);
  const SamplingOptions options{.temperature = 1.25, .seed = 3};
  const at::Tensor want = at::log_softmax(row.to(at::kDouble) / 1.25, 0).exp() * draws;
  std::vector<double> counts(static_cast<size_t>(width), 0);
  for (int64_t i = 0; i < draws; ++i) {
    // prompts, samples and positions are independent of each other
    const DrawKey key{.prompt = static_cast<uint64_t>(i % 10),
                      .sample = static_cast<uint32_t>(i / 10 % 20),
                      .position = static_cast<uint64_t>(i / 200)};
    ++counts[static_cast<size_t>(draw_one(row, key, options).id)];
  }
  double statistic = 0;
  for (int64_t i = 0; i < width; ++i) {
    const double expected = want[i].item<double>();
    statistic += std::pow(counts[static_cast<size_t>(i)] - expected, 2) / expected;
  }
  EXPECT_LT(statistic, 31.3);
}

TEST(Sampling, ADrawDependsOnItsNameAlone) {
  const at::Tensor rows = at::randn({6, 1000});
  const SamplingOptions options{.temperature = 1, .top_p = 0.95, .seed = 9};
  std::vector<DrawKey> keys;
  for (uint64_t i = 0; i < 6; ++i) keys.push_back({.prompt = i, .sample = 2, .position = 7 * i});
  const std::vector<DrawnToken> together = draw_tokens(rows.clone(), keys, options);
  for (int64_t i = 0; i < 6; ++i) {
    const DrawnToken alone = draw_one(rows[i], keys[static_cast<size_t>(i)], options);
    EXPECT_EQ(alone.id, together[static_cast<size_t>(i)].id);
    EXPECT_EQ(alone.logprob, together[static_cast<size_t>(i)].logprob);
  }
  int other = 0;
  for (const DrawKey key : {DrawKey{1, 0, 0}, DrawKey{0, 1, 0}, DrawKey{0, 0, 1}}) {
    other += draw_one(rows[0], key, options).id != draw_one(rows[0], {}, options).id;
  }
  EXPECT_EQ(other, 3) << "prompt, sample and position each name another number";
  SamplingOptions seeded = options;
  seeded.seed = 10;
  EXPECT_NE(draw_one(rows[0], {}, seeded).id, draw_one(rows[0], {}, options).id);
}

TEST(Sampling, ReportedLogProbsAreOfTheWholeVocabulary) {
  const at::Tensor row = at::randn({50000}) * 3;
  const at::Tensor want = at::log_softmax(row.to(at::kDouble) / 0.7, 0);
  const SamplingOptions options{.temperature = 0.7, .top_k = 5};
  for (uint64_t position = 0; position < 8; ++position) {
    const DrawnToken draw = draw_one(row, {.position = position}, options);
    EXPECT_NEAR(draw.logprob, want[draw.id].item<double>(), 1e-5);
    EXPECT_GT(draw.logprob_kept, draw.logprob);
  }
}

TEST(Sampling, ARowThatIsNotFiniteIsNamed) {
  const float infinity = std::numeric_limits<float>::infinity();
  at::Tensor rows = at::randn({3, 40});
  const std::vector<DrawKey> keys(3);
  const auto error_with = [&](float value) -> std::string {
    at::Tensor bad = rows.clone();
    bad[1][17] = value;
    try {
      draw_tokens(bad, keys, {.temperature = 1, .top_k = 3});
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(error_with(std::nanf("")).find("row 1 of the logits has a NaN"), std::string::npos);
  EXPECT_NE(error_with(infinity).find("row 1 of the logits"), std::string::npos);
  EXPECT_EQ(error_with(-infinity), "no error");
  EXPECT_EQ(error_of([&] { draw_one(at::full({4}, -infinity), {}, {}); }),
            "row 0 of the logits has a NaN or an infinity, or no finite value; the weights or "
            "activations of the model are damaged");
}

TEST(Sampling, ATokenOfMinusInfinityIsNeverDrawn) {
  at::Tensor row = at::full({5}, -std::numeric_limits<float>::infinity());
  row[3] = -2.0f;
  for (uint64_t i = 0; i < 20; ++i) {
    const DrawnToken draw = draw_one(row, {.position = i}, {.temperature = 1});
    EXPECT_EQ(draw.id, 3);
    EXPECT_EQ(draw.logprob, 0);
  }
}

TEST(Sampling, NamesAnOptionOutOfRange) {
  const double nan = std::nan("");
  EXPECT_EQ(message({.temperature = -1}),
            "temperature is -1, wanted 0 (the likeliest token) or a number from 0.001 to 1000");
  EXPECT_NE(message({.temperature = nan}), "no error");
  EXPECT_EQ(message({.temperature = 1, .top_k = -3}), "top_k is -3, wanted 0 (off) or more");
  EXPECT_EQ(message({.temperature = 1, .top_p = 0}, "--"),
            "--top-p is 0, wanted a number above 0, up to 1 (off)");
  EXPECT_NE(message({.temperature = 1, .top_p = nan}), "no error");
  EXPECT_EQ(message({.temperature = 1, .min_p = 1.5}),
            "min_p is 1.5, wanted a number from 0 (off) to 1");
  EXPECT_EQ(message({.top_k = 5}, "--"),
            "--top-k, --top-p and --min-p change nothing at --temperature 0, which takes the "
            "likeliest token; set a temperature, say 1");
  EXPECT_EQ(message({.temperature = 1000, .top_k = 1, .top_p = 1e-9, .min_p = 1}), "no error");
}

}  // namespace xrun::sampling_test
