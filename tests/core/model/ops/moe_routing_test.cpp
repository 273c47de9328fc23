// Routing breaks ties by index; load and balance cover the whole step, however it is split.

#include "core/model/ops/moe_routing.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "core/model/model.h"
#include "core/model/weights/safetensors.h"
#include "tests/core/model/load_model.h"
#include "tests/error_of.h"
#include "tests/gradient_check.h"
#include "tests/parity.h"
#include "tests/tree.h"

namespace xrun::moe_routing_test {

namespace {

RouterRecord record_of(const at::Tensor& logits, int64_t top_k) {
  RouterRecord record;
  record.add_layer(route(logits, top_k, true));
  return record;
}

RouterTotals totals_of(const std::vector<RouterRecord>& records) {
  RouterTotals totals;
  for (const RouterRecord& record : records) totals.add(record);
  return totals;
}

}  // namespace

TEST(Moe, EqualLogitsChooseTheLowestExperts) {
  const Routing all_equal = route(at::zeros({3, 64}), 8, true);
  for (int64_t t = 0; t < 3; ++t) {
    for (int64_t j = 0; j < 8; ++j) EXPECT_EQ(all_equal.index[t][j].item<int64_t>(), j);
  }
  const at::Tensor logits = at::tensor({1.0f, 3.0f, 2.0f, 3.0f, 2.0f}).view({1, 5});
  const Routing routing = route(logits, 3, false);
  EXPECT_TRUE(routing.index.equal(at::tensor({int64_t{1}, int64_t{3}, int64_t{2}}).view({1, 3})));
}

TEST(Moe, GivenExpertsGetTheWeightsOfThePresentLogits) {
  const at::Tensor logits = random_tensor({4, 7}, 3, 2.0);
  const Routing own = route(logits, 2, true);
  EXPECT_TRUE(route(logits, 2, true, own.index).weight.equal(own.weight));
  at::Tensor chosen = at::tensor({int64_t{6}, int64_t{0}}).expand({4, 2}).clone();
  chosen[2].fill_(-1);  // unknown: routed again
  for (const bool renormalise : {false, true}) {
    const Routing routing = route(logits, 2, renormalise, chosen);
    EXPECT_TRUE(routing.index[0].equal(chosen[0]));
    EXPECT_TRUE(routing.index[2].equal(own.index[2]));
    at::Tensor weight = logits.softmax(-1).gather(1, routing.index);
    if (renormalise) weight = weight / weight.sum(1, true);
    EXPECT_TRUE(routing.weight.equal(weight));
  }
}

TEST(Moe, WeightsAreProbabilitiesRenormalisedOnlyOnRequest) {
  const at::Tensor logits = random_tensor({5, 7}, 3, 2.0);
  const at::Tensor prob = logits.softmax(-1);
  const Routing plain = route(logits, 2, false), shared = route(logits, 2, true);
  EXPECT_TRUE(plain.weight.equal(prob.gather(1, plain.index)));
  EXPECT_LT((shared.weight.sum(1) - 1).abs().max().item<double>(), 1e-6);
  EXPECT_TRUE(plain.index.equal(shared.index));
  EXPECT_EQ(route(logits.to(at::kBFloat16), 2, true).weight.scalar_type(), at::kBFloat16);
  EXPECT_EQ(route(logits.to(at::kBFloat16), 2, true).prob.scalar_type(), at::kFloat);
}

TEST(Moe, RefusesMoreExpertsPerTokenThanExist) {
  const auto error = [](int64_t top_k) {
    return error_of([&] { route(at::zeros({2, 4}), top_k, true); });
  };
  EXPECT_EQ(error(5), "route: top_k is 5, wanted 1 to the 4 experts");
  EXPECT_EQ(error(0), "route: top_k is 0, wanted 1 to the 4 experts");
}

TEST(Moe, BalanceOfUniformRoutingIsTopK) {
  // Token t prefers experts t and t + 1: experts are chosen equally often, with equal
  // probabilities.
  at::Tensor logits = at::zeros({8, 8});
  for (int64_t t = 0; t < 8; ++t) {
    logits[t][t] = 1;
    logits[t][(t + 1) % 8] = 1;
  }
  const RouterTotals totals = totals_of({record_of(logits, 2)});
  EXPECT_NEAR(balance(totals), 2.0, 1e-6);
  const ExpertLoad load = expert_load(totals);
  EXPECT_EQ(load.largest, 1.0);
  EXPECT_EQ(load.smallest, 1.0);
  EXPECT_EQ(load.idle, 0.0);
}

TEST(Moe, LoadOfOneCrowdedExpertIsTheNumberOfExperts) {
  at::Tensor logits = at::zeros({6, 4});
  logits.select(1, 2).fill_(9);
  const ExpertLoad load = expert_load(totals_of({record_of(logits, 1)}));
  EXPECT_EQ(load.largest, 4.0);
  EXPECT_EQ(load.smallest, 0.0);
  EXPECT_EQ(load.idle, 0.75);
}

TEST(Moe, SharesOfMicroBatchesAddUpToTheWhole) {
  const at::Tensor logits = random_tensor({20, 6}, 5, 2.0);
  const RouterRecord whole = record_of(logits, 2);
  const std::vector<RouterRecord> parts = {record_of(logits.narrow(0, 0, 7), 2),
                                           record_of(logits.narrow(0, 7, 1), 2),
                                           record_of(logits.narrow(0, 8, 12), 2)};
  const RouterTotals totals = totals_of(parts);
  EXPECT_NEAR(balance(totals), balance(totals_of({whole})), 1e-6);
  double sum = 0;
  for (const RouterRecord& part : parts) sum += balance_share(part, totals).item<double>();
  EXPECT_NEAR(sum, balance(totals), 1e-6);
}

TEST(Moe, TheShareCarriesTheGradientOfTheProbabilities) {
  const at::Tensor logits = random_tensor({9, 4}, 6);
  const RouterTotals step = totals_of({record_of(logits, 2)});
  expect_gradients(
      [&](const std::vector<at::Tensor>& in) {
        RouterRecord record = record_of(in[0], 2);
        return balance_share(record, step).view({1});
      },
      {logits});
}

TEST(Moe, NoTokensHaveNoBalanceAndNoLoad) {
  EXPECT_EQ(route(at::zeros({0, 4}), 4, true).index.sizes(), at::IntArrayRef({0, 4}));
  EXPECT_EQ(balance({}), 0);
  const RouterTotals empty = totals_of({record_of(at::zeros({0, 4}), 2)});
  EXPECT_EQ(balance(empty), 0);
  EXPECT_EQ(expert_load(empty).largest, 0);
}

TEST(Moe, BalanceMatchesTransformersForOneLayer) {
  for (const char* name : {"qwen3_moe", "qwen3_moe_fused"}) {
    const auto dir = std::filesystem::path(source_path("tests/golden/models")) / name;
    const SafetensorsFile golden(dir / "golden.safetensors");
    const at::Tensor tokens = golden.read("tokens");
    std::vector<int32_t> sequence;
    for (int64_t t = 0; t < tokens.size(0); ++t) {
      sequence.push_back(static_cast<int32_t>(tokens[t].item<int64_t>()));
    }
    RouterRecord record;
    const auto model = load_model(dir, at::kFloat, false);
    model->forward(pack_sequences({sequence}), {.router = &record});
    EXPECT_EQ(record.layers.size(), 1u);
    SCOPED_TRACE(name);
    expect_parity(balance(totals_of({record})), golden.read("aux").item<double>(), 1e-5);
  }
}

}  // namespace xrun::moe_routing_test
