// The check before a run trains finds a folded pack that differs from its separate sequences.

#include "core/train/batches/fold_check.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/model/flops.h"
#include "core/model/model.h"
#include "core/train/batches/computed_pack.h"
#include "core/train/models/policy.h"
#include "tests/core/train/step_fixture.h"
#include "tests/core/train/tiny_pairs.h"

namespace xrun::fold_check_test {
namespace {

class FoldCheck : public StepTest {
 protected:
  void SetUp() override {
    StepTest::SetUp();
    batch_ = tiny_batch(shared_prefix_pairs(6), 3, fold_info(FoldMode::kAlways));
  }
  const PackedBatch& pack() const { return batch_->micros()[0]->pack(); }
  const ComputedPack& folded(const Model& model) { return batch_->micros()[0]->computed(model); }
  static std::string name(int64_t row) { return "pairs.jsonl:" + std::to_string(row + 1); }
  // The error of a check; "" if it passes.
  template <typename Check>
  static std::string error_of(const Check& check) {
    try {
      check();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  std::shared_ptr<Batch> batch_;
};

TEST_F(FoldCheck, AFoldedPackHasTheBitsOfItsSequences) {
  EXPECT_EQ(check_fold(policy_->model(), pack(), folded(policy_->model()), name), 0);
}

TEST_F(FoldCheck, APositionThatIsOneTooSmallIsFound) {
  ComputedPack wrong = folded(policy_->model());
  const auto node = static_cast<size_t>(wrong.fold->parent.size() - 1);
  ASSERT_GE(wrong.fold->parent[node], 0);
  wrong.input.position_ids = wrong.input.position_ids.clone();
  wrong.input.position_ids[wrong.fold->node_begin[node]] -= 1;
  const std::string error = error_of([&] { check_fold(policy_->model(), pack(), wrong, name); });
  EXPECT_NE(error.find("pairs.jsonl:"), std::string::npos) << error;
}

// One element of one token of each node in turn, since any node may be the wrong one.
TEST_F(FoldCheck, ADeviationOfAThousandthInOneNodeIsFound) {
  const at::NoGradGuard no_grad;
  Model& model = policy_->model();
  const ComputedPack& computed = folded(model);
  const at::Tensor whole =
      model.forward(tiny_batch(shared_prefix_pairs(6), 3)->micros()[0]->computed(model).input);
  const at::Tensor exact = model.forward(computed.input);
  const auto checked = [&](int32_t node, double deviation, at::ScalarType type) {
    at::Tensor hidden = exact.clone();
    at::Tensor token = hidden[computed.fold->node_begin[static_cast<size_t>(node)]];
    const double size = std::max(1.0, token.abs().max().item<double>());
    token[7] += deviation * size;
    return error_of([&] { check_hidden(pack(), *computed.fold, {hidden, whole}, type, name); });
  };
  ASSERT_GT(computed.fold->node_count(), 5);
  for (int32_t node = 0; node < computed.fold->node_count(); ++node) {
    EXPECT_NE(checked(node, 1e-3, at::kFloat), "") << node;
    EXPECT_EQ(checked(node, 0.9e-4, at::kFloat), "") << node;
    // Rounding alone reaches a few percent in bf16.
    EXPECT_NE(checked(node, 0.11, at::kBFloat16), "") << node;
    EXPECT_EQ(checked(node, 0.09, at::kBFloat16), "") << node;
  }
}

// Sixteen answers to one long prompt: over ten times the tokens that are computed.
TEST_F(FoldCheck, ACheckOfManySequencesCostsAtMostThreeForwardsOfTheFoldedPack) {
  const at::NoGradGuard no_grad;
  std::vector<TinyPair> pairs;
  for (int32_t i = 0; i < 8; ++i) {
    pairs.push_back({std::vector<int32_t>(200, 5), {i + 10, 3}, {i + 30, 4}});
  }
  const auto batch = tiny_batch(pairs, 8, fold_info(FoldMode::kAlways));
  MicroBatch& micro = *batch->micros()[0];
  Model& model = policy_->model();
  ComputedPack computed = micro.computed(model);
  ASSERT_GT(std::ssize(micro.pack().tokens), 10 * computed.token_count());
  const auto cost = [&](const auto& f) {
    const double before = counted_flops();
    f();
    return counted_flops() - before;
  };
  const double once = cost([&] { model.forward(computed.input); });
  EXPECT_LE(cost([&] { check_fold(model, micro.pack(), computed, name); }), 3.01 * once);
  // A prefix that differs is still found.
  computed.input.tokens = computed.input.tokens.clone();
  computed.input.tokens[7] = 6;
  EXPECT_NE(error_of([&] { check_fold(model, micro.pack(), computed, name); }), "");
}

TEST_F(FoldCheck, RoundingOfBf16Passes) {
  const auto policy = Policy::open(folder_.model(), {.dtype = at::kBFloat16});
  const double deviation = check_fold(policy->model(), pack(), folded(policy->model()), name);
  EXPECT_LT(deviation, 0.05);
}

}  // namespace
}  // namespace xrun::fold_check_test
