// REINFORCE on signed weights: its scalar form, and its losses inside a step in any packs.

#include "core/train/reinforce.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "tests/core/train/step_fixture.h"
#include "tests/error_of.h"

namespace xrun::reinforce_test {
namespace {

class Reinforce : public StepTest {
 protected:
  static at::Tensor doubles(const std::vector<double>& values) {
    return at::tensor(values, at::kDouble);
  }
  // Pairs as plain sequences, of which half have other row weights.
  std::shared_ptr<Batch> batch(size_t per_pack) const {
    std::vector<TinyPair> pairs = tiny_pairs(4);
    pairs[1].weight = 0.25;
    BatchInfo info;
    info.unit = Unit::kToken;
    return tiny_batch(pairs, per_pack, info);
  }
  // Uneven weights of both signs, [n].
  static at::Tensor weights(const Batch& batch) {
    std::vector<double> values;
    for (int64_t i = 0; i < batch.size(); ++i) values.push_back(i % 3 - 1.2 * (i % 2));
    return doubles(values);
  }
  Objective objective(const char* field) {
    return [this, field](MicroBatch& micro) {
      bool by_row = false;
      const at::Tensor weight = micro.field(field, &by_row);
      const at::Tensor loss = reinforce(micro, policy_->token_logprob(micro.all()), weight);
      return ObjectiveResult{{{Unit::kToken, loss}}, {}};
    };
  }
};

TEST_F(Reinforce, IsTheWeightedSumOverTheSumOfAbsoluteWeights) {
  const at::Tensor logprob = doubles({-1, -2, -4}).requires_grad_();
  const at::Tensor loss = reinforce(logprob, doubles({0.5, -1, 0}));
  EXPECT_DOUBLE_EQ(loss.item().toDouble(), -(0.5 * -1 + -1 * -2) / 1.5);
  loss.backward();
  const at::Tensor wanted = doubles({-0.5 / 1.5, 1 / 1.5, 0});
  EXPECT_LE(logprob.grad().sub(wanted).abs().max().item().toDouble(), 1e-15);
  EXPECT_EQ(reinforce(logprob, doubles({0, 0, 0})).item().toDouble(), 0);
  EXPECT_EQ(error_of([&] { reinforce(logprob, doubles({1})); }),
            "signed weights have shape [1], wanted [3] as the log-probs");
}

TEST_F(Reinforce, AStepDividesByTheAbsoluteWeightOfTheWholeStepInAnyPacks) {
  std::vector<at::Tensor> first;
  for (const size_t per_pack : {4, 2, 1}) {
    SCOPED_TRACE(per_pack);
    const auto made = batch(per_pack);
    const at::Tensor weight = weights(*made);
    made->set_field("advantage", weight, Unit::kSequence);
    // The same by hand, over the whole batch: row weights multiply the signed ones.
    const at::Tensor rows = made->field("length");
    const at::Tensor signed_weight =
        weight.mul(made->field("weight").to(at::kDouble)).repeat_interleave(rows);
    const double wanted =
        reinforce(policy_->LogprobSource::token_logprob(*made).to(at::kDouble), signed_weight)
            .item()
            .toDouble();
    const std::vector<at::Tensor> got = gradients(*made, objective("advantage"));
    const Metrics metrics =
        train_step({{made.get(), objective("advantage")}}, adamw_.get(), {.read_gradients = [] {}});
    EXPECT_NEAR(value(metrics, "loss"), wanted, 1e-6);
    if (first.empty()) first = got;
    EXPECT_LT(distance(got, first), 1e-5);
    // A common factor of all weights cancels; a weight per token is the same as one per sequence.
    made->set_field("advantage", weight.mul(100), Unit::kSequence);
    EXPECT_LT(distance(gradients(*made, objective("advantage")), first), 1e-5);
    made->set_field("by_token", weight.repeat_interleave(rows), Unit::kToken);
    EXPECT_LT(distance(gradients(*made, objective("by_token")), first), 1e-5);
  }
}

TEST_F(Reinforce, WeightsInsideAnObjectiveMustBeAField) {
  const auto made = batch(4);
  MicroBatch& micro = *made->micros()[0];
  const at::Tensor logprob = at::zeros({micro.row_count()});
  EXPECT_NE(error_of([&] {
              reinforce(micro, logprob, logprob);
            }).find("write batch.signed_weight = w in the loop"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              reinforce(micro, at::zeros({1}), logprob);
            }).find("log-probs have shape [1], wanted ["),
            std::string::npos);
}

}  // namespace
}  // namespace xrun::reinforce_test
