// The fetched SmolLM2 against transformers reading the same GGUF file (smollm2_goldens.py).

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/logsumexp.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "core/base/json.h"
#include "core/model/model.h"
#include "core/model/weights/model_registry.h"
#include "core/text/tokenizer/tokenizer.h"
#include "tests/core/model/golden_pack.h"
#include "tests/core/model/load_model.h"
#include "tests/tree.h"

namespace xrun::smollm2_golden_test {

namespace {

class SmolLm2Golden : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_fetched(known_models().front())) GTEST_SKIP() << "run: xrun models get smollm2...";
  }

  const std::filesystem::path dir_ = model_folder(known_models().front());
  const Json golden_ = read_json(source_path("tests/golden/smollm2.json"));
};

std::vector<int32_t> ids_of(const Json& list) {
  std::vector<int32_t> ids;
  for (const Json& id : list.as_array()) ids.push_back(static_cast<int32_t>(id.as_int()));
  return ids;
}

// The largest difference of the golden's logits, and of the log-sum-exp, at its positions.
double largest_difference(const at::Tensor& logits, const Json& columns, const Json& sequence) {
  double worst = 0;
  for (size_t p = 0; p < sequence.at("positions").size(); ++p) {
    const at::Tensor row = logits[sequence.at("positions").as_array()[p].as_int()].to(at::kDouble);
    const Json& want = sequence.at("logits").as_array()[p];
    for (size_t c = 0; c < columns.size(); ++c) {
      const double got = row[columns.as_array()[c].as_int()].item<double>();
      worst = std::max(worst, std::abs(got - want.as_array()[c].as_double()));
    }
    const double sum = at::logsumexp(row, 0).item<double>();
    worst = std::max(worst, std::abs(sum - sequence.at("logsumexp").as_array()[p].as_double()));
  }
  return worst;
}

TEST_F(SmolLm2Golden, TokenIdsMatchTransformers) {
  const auto tokenizer = Tokenizer::load(dir_);
  for (const Json& text : golden_.at("texts").as_array()) {
    EXPECT_EQ(tokenizer->encode(text.at("text").as_string()).ids, ids_of(text.at("ids")));
  }
}

TEST_F(SmolLm2Golden, SlowPackedLogitsMatchTransformers) {
  const auto model = load_model(dir_, at::kFloat, false);
  const at::NoGradGuard no_grad;
  std::vector<std::vector<int32_t>> sequences;
  for (const Json& sequence : golden_.at("sequences").as_array()) {
    sequences.push_back(ids_of(sequence.at("ids")));
  }
  const std::vector<int32_t> cu = pack_sequences(sequences).cu_seqlens;
  double worst = 0;
  for (const bool folded : {false, true}) {
    const GoldenPack pack = golden_pack(sequences, model->config(), folded);
    const at::Tensor hidden = model->forward(pack.input).index_select(0, pack.rows.back());
    const at::Tensor logits = hidden.matmul(model->head_weight().t());
    for (size_t s = 0; s < sequences.size(); ++s) {
      worst = std::max(worst,
                       largest_difference(logits.slice(0, cu[s], cu[s + 1]), golden_.at("columns"),
                                          golden_.at("sequences").as_array()[s]));
    }
  }
  RecordProperty("largest_difference", fmt::format("{:.2e}", worst));
  std::printf("largest difference of a logit: %.2e\n", worst);
  EXPECT_LT(worst, 1e-3);
}

}  // namespace

}  // namespace xrun::smollm2_golden_test
