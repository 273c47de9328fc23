// The head over views and batches: values against a plain softmax in fp64, gradients against
// finite differences through the whole model, packed against single.

#include "core/train/models/view_head.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>

#include "core/base/error.h"
#include "core/model/ops/head_block.h"
#include "core/model/weights/init_model.h"
#include "core/train/batches/unit.h"
#include "tests/core/train/step_fixture.h"
#include "tests/error_of.h"
#include "tests/head_oracle.h"

namespace xrun::view_head_test {
namespace {

HeadOptions everything() {
  HeadOptions options;
  options.entropy = options.lse = true;
  options.top_k = 8;
  options.temperature = 0.7;
  return options;
}

class ViewHead : public StepTest {
 protected:
  std::shared_ptr<Policy> untied() const {
    InitOptions options;
    options.hidden = 32;
    options.ffn = 64;
    options.scale = 0.2;
    options.tied = false;
    init_model(folder_.path() / "untied", options);
    return Policy::open(folder_.path() / "untied");
  }
  // The low-rank start adds nothing, so its factors are drawn.
  std::shared_ptr<Policy> lora() const {
    PolicyOptions options;
    options.lora = AdapterOptions{.rank = 4};
    auto policy = Policy::open(folder_.model(), options);
    const at::NoGradGuard no_grad;
    uint64_t seed = 50;
    for (Parameter& one : policy->parameters()) {
      one.master.detach().copy_(random_tensor(one.master.sizes().vec(), seed++, 0.2));
    }
    return policy;
  }
  std::vector<std::shared_ptr<Policy>> kinds() const { return {policy_, untied(), lora()}; }

  // The oracle over the hidden states of a micro-batch's rows.
  static HeadResult wanted(Policy& policy, MicroBatch& micro, const HeadOptions& options) {
    const at::NoGradGuard no_grad;
    Model& model = policy.model();
    return head_oracle(micro.hidden(model), model.head_weight(),
                       int64_tensor(micro.pack().rows.hidden),
                       int64_tensor(micro.pack().rows.target), options);
  }
  static void expect_same(const HeadResult& got, const HeadResult& want, double tolerance = 1e-5) {
    EXPECT_LT(largest_difference(got.logprob, want.logprob), tolerance);
    EXPECT_LT(largest_difference(got.entropy, want.entropy), tolerance);
    EXPECT_LT(largest_difference(got.lse, want.lse), tolerance);
    EXPECT_LT(largest_difference(got.top_logprob, want.top_logprob), tolerance);
    EXPECT_TRUE(at::equal(got.top_id, want.top_id));
  }
};

TEST_F(ViewHead, ValuesMatchAPlainSoftmax) {
  for (const auto& policy : kinds()) {
    const auto batch = tiny_batch(tiny_pairs(4), 4);
    MicroBatch& micro = *batch->micros()[0];
    HeadOptions options = everything();
    for (const int64_t columns : {0, 250}) {
      options.columns = columns;
      expect_same(policy->head(micro.all(), options), wanted(*policy, micro, options));
    }
  }
}

TEST_F(ViewHead, ByDefaultReturnsTokenLogProbsOnly) {
  for (const auto& policy : kinds()) {
    const auto batch = tiny_batch(tiny_pairs(4), 4);
    const View view = batch->micros()[0]->chosen();
    const HeadResult got = policy->head(view);
    EXPECT_LT(largest_difference(got.logprob, policy->token_logprob(view)), 1e-5);
    EXPECT_FALSE(got.entropy.defined() || got.lse.defined() || got.top_id.defined());
  }
}

TEST_F(ViewHead, AViewHasOnlyItsRows) {
  const auto batch = tiny_batch(tiny_pairs(5), 5);
  MicroBatch& micro = *batch->micros()[0];
  const HeadResult all = policy_->head(micro.all(), everything());
  for (const View& view : {micro.chosen(), micro.rejected()}) {
    const HeadResult side = policy_->head(view, everything());
    ASSERT_EQ(side.entropy.size(0), view.row_count());
    ASSERT_LT(view.row_count(), micro.row_count());
    expect_same(side, {.logprob = view.select_rows(all.logprob),
                       .entropy = view.select_rows(all.entropy),
                       .lse = view.select_rows(all.lse),
                       .top_logprob = view.select_rows(all.top_logprob),
                       .top_id = view.select_rows(all.top_id)});
  }
}

TEST_F(ViewHead, PackedEqualsSingle) {
  for (const auto& policy : kinds()) {
    const std::vector<TinyPair> pairs = tiny_pairs(6);
    const HeadResult whole = policy->head(*tiny_batch(pairs, 6), everything());
    EXPECT_EQ(whole.top_id.size(1), 8);
    EXPECT_FALSE(whole.entropy.requires_grad());
    expect_same(policy->head(*tiny_batch(pairs, 1), everything()), whole);
    const auto reversed =
        std::make_shared<Batch>(BatchInfo{.total_steps = 1}, tiny_packs(pairs, 3, true));
    EXPECT_LT(largest_difference(policy->head(*reversed, everything()).entropy.mean(),
                                 whole.entropy.mean()),
              1e-5);
  }
}

// Every trained weight moves at once along a random direction.
TEST_F(ViewHead, GradientsAgreeWithFiniteDifferencesThroughTheModel) {
  const std::vector<TinyPair> pairs = tiny_pairs(4);
  for (const auto& policy : kinds()) {
    for (const auto output : {&HeadResult::entropy, &HeadResult::lse, &HeadResult::logprob}) {
      const HeadOptions options = everything();
      const auto value = [&] {
        const auto batch = tiny_batch(pairs, 4);
        const at::Tensor y = policy->head(batch->micros()[0]->chosen(), options).*output;
        return (y.to(at::kDouble) * random_tensor(y.sizes().vec(), 7)).sum();
      };
      std::vector<Parameter>& parameters = policy->parameters();
      for (Parameter& one : parameters) one.master.mutable_grad() = at::Tensor();
      value().backward();
      const at::NoGradGuard no_grad;
      double analytic = 0, size = 0;
      std::vector<at::Tensor> directions;
      for (const Parameter& parameter : parameters) {
        ASSERT_TRUE(parameter.master.grad().defined()) << parameter.name;
        directions.push_back(
            random_tensor(parameter.master.sizes().vec(), 80 + directions.size(), 2e-4));
        analytic += parameter.master.grad().mul(directions.back()).sum().item<double>();
        size += parameter.master.grad().mul(directions.back()).square().sum().item<double>();
      }
      const auto moved = [&](double by) {
        for (size_t i = 0; i < parameters.size(); ++i) {
          parameters[i].master.detach().add_(directions[i], by);
        }
        policy->count_update();
        return value().item<double>();
      };
      const double ahead = moved(1), behind = moved(-2);
      moved(1);
      EXPECT_NEAR(analytic, (ahead - behind) / 2, 1e-2 * std::sqrt(size) + 1e-5);
      EXPECT_GT(size, 0);
    }
  }
}

TEST_F(ViewHead, SharesTheForwardOfTheLogProbs) {
  const auto batch = tiny_batch(tiny_pairs(3), 3);
  MicroBatch& micro = *batch->micros()[0];
  const at::Tensor hidden = micro.hidden(policy_->model());
  hidden.retain_grad();
  policy_->head(micro.chosen(), everything()).entropy.sum().backward();
  EXPECT_TRUE(hidden.grad().defined());
}

TEST_F(ViewHead, SeveralTargetsAreScoredInPlaceOfTheTokens) {
  const auto batch = tiny_batch(tiny_pairs(3), 3);
  MicroBatch& micro = *batch->micros()[0];
  const View view = micro.rejected();
  const at::Tensor hidden = micro.hidden(policy_->model());
  hidden.retain_grad();
  const auto gradient = [&](const at::Tensor& y) {
    hidden.mutable_grad() = at::Tensor();
    (y * random_tensor(y.sizes().vec(), 7)).sum().backward({}, /*retain_graph=*/true);
    return hidden.grad().clone();
  };
  const HeadResult top = policy_->head(view, everything());
  const HeadResult again = policy_->head(view, {.temperature = 0.7}, top.top_id);
  EXPECT_LT(largest_difference(again.logprob, top.top_logprob), 1e-5);
  EXPECT_LT(largest_difference(gradient(again.logprob), gradient(top.top_logprob)), 1e-5);
  const HeadResult first = policy_->head(view, {.temperature = 0.7}, top.top_id.select(1, 0));
  EXPECT_LT(largest_difference(first.logprob, top.top_logprob.select(1, 0)), 1e-5);
  EXPECT_EQ(message_of<Error>([&] { policy_->head(view, {}, top.top_id.narrow(0, 0, 2)); }),
            fmt::format("targets are [2, 8], wanted [{0}] or [{0}, M]: a row for each trained "
                        "token of the view",
                        view.row_count()));
}

TEST_F(ViewHead, TheReferenceSharesThePolicysForwardAndItsGraph) {
  const auto batch = tiny_batch(tiny_pairs(3), 3);
  MicroBatch& micro = *batch->micros()[0];
  const HeadResult frozen = reference_->head(micro.chosen(), everything());
  const HeadResult trained = policy_->head(micro.chosen(), everything());
  EXPECT_TRUE(at::equal(frozen.logprob, trained.logprob));
  EXPECT_TRUE(at::equal(frozen.entropy, trained.entropy));
  EXPECT_FALSE(frozen.entropy.requires_grad());
  EXPECT_TRUE(trained.entropy.requires_grad()) << "the reference made the forward, without a graph";
  EXPECT_FALSE(reference_->loaded());
}

TEST_F(ViewHead, TheReferenceKeepsThePolicysFirstValues) {
  const std::vector<TinyPair> pairs = tiny_pairs(4);
  const auto batch = tiny_batch(pairs, 4);
  const View view = batch->micros()[0]->rejected();
  const HeadResult before = Policy::open(folder_.model())->head(view, everything());
  train_step({{tiny_batch(pairs, 2).get(), dpo_objective()}}, adamw_.get());
  expect_same(reference_->head(view, everything()), before);
  EXPECT_GT(largest_difference(policy_->head(view, everything()).lse, before.lse), 1e-4);
  const at::Tensor plain = reference_->head(view).logprob;
  EXPECT_LT(largest_difference(plain, reference_->token_logprob(view)), 1e-5);
  expect_same(reference_->head(*tiny_batch(pairs, 1), everything()),
              reference_->head(*tiny_batch(pairs, 4), everything()));
  const auto scored = reference_->head(view, {.temperature = 0.7}, before.top_id);
  EXPECT_LT(largest_difference(scored.logprob, before.top_logprob), 1e-5);
  reference_->check_digest();
}

TEST_F(ViewHead, TheStepReportsPlainLogProbsAlone) {
  const auto metrics = [&](double temperature) {
    const Objective entropy = [&](MicroBatch& p) {
      ObjectiveResult result;
      const HeadResult head =
          policy_->head(p.chosen(), {.temperature = temperature, .entropy = true});
      result.losses.emplace_back(Unit::kPair, p.chosen().mean(head.entropy).neg());
      return result;
    };
    return train_step({{tiny_batch(tiny_pairs(4), 2).get(), entropy}}, adamw_.get());
  };
  const auto reported = [](const Metrics& all) {
    return std::any_of(all.begin(), all.end(),
                       [](const auto& one) { return one.first == "logprob_chosen"; });
  };
  EXPECT_TRUE(reported(metrics(1)));
  EXPECT_FALSE(reported(metrics(0.7)));
}

TEST_F(ViewHead, CallsOfAMicroBatchShareTheMemoryForTheirLogits) {
  PolicyOptions options;
  options.head_mb = 1;  // enough for the first call, whatever its size
  const auto policy = Policy::open(folder_.model(), options);
  const auto batch = tiny_batch(tiny_pairs(3), 3);
  MicroBatch& micro = *batch->micros()[0];
  const auto recomputed = [&](const std::function<at::Tensor()>& loss) {
    const int64_t before = head_counts().recomputed;
    loss().backward();
    micro.close();
    return head_counts().recomputed - before;
  };
  const auto entropy = [&](const View& view) {
    return policy->head(view, {.entropy = true}).entropy.sum();
  };
  const int64_t rows = micro.rejected().row_count();
  EXPECT_EQ(recomputed([&] { return entropy(micro.chosen()); }), 0);
  EXPECT_EQ(recomputed([&] {
              const at::Tensor first = entropy(micro.chosen());
              return first + entropy(micro.rejected());
            }),
            rows);
  EXPECT_EQ(recomputed([&] {
              const at::Tensor first = policy->token_logprob(micro.chosen()).sum();
              return first + entropy(micro.rejected());
            }),
            rows);
  EXPECT_EQ(recomputed([&] {
              const at::NoGradGuard no_grad;  // keeps nothing
              entropy(micro.rejected());
              const at::AutoGradMode with_gradients(true);
              return entropy(micro.chosen());
            }),
            0);
}

TEST_F(ViewHead, ABatchWithoutMicroBatchesHasEmptyOutputs) {
  Batch empty(BatchInfo{.total_steps = 1}, {});
  const HeadResult got = policy_->head(empty, everything());
  EXPECT_EQ(got.logprob.sizes(), at::IntArrayRef({0}));
  EXPECT_EQ(got.entropy.sizes(), at::IntArrayRef({0}));
  EXPECT_EQ(got.lse.sizes(), at::IntArrayRef({0}));
  EXPECT_EQ(got.top_logprob.sizes(), at::IntArrayRef({0, 8}));
  EXPECT_EQ(got.top_id.sizes(), at::IntArrayRef({0, 8}));
  EXPECT_FALSE(policy_->head(empty).entropy.defined());
}

TEST_F(ViewHead, ATokenBeyondTheColumnsIsRefused) {
  HeadOptions options = everything();
  options.columns = 9;
  const auto batch = tiny_batch(tiny_pairs(3), 3);
  EXPECT_NE(error_of([&] {
              policy_->head(batch->micros()[0]->all(), options);
            }).find(", outside the vocabulary of 9"),
            std::string::npos);
}

}  // namespace
}  // namespace xrun::view_head_test
