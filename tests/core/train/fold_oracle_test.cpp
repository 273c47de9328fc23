// Folded steps against the steps of the separate sequences. The oracle is the decoder in fp64,
// through the composed forms of its operators: there every gradient agrees to 1e-10 of its tensor's
// largest, and a wrong position, a wrong mask or a log-sum-exp without gradient is a million times
// off.

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "core/model/model.h"
#include "core/model/ops/attention.h"
#include "core/model/ops/attention_op.h"
#include "core/model/weights/hf_config.h"
#include "core/train/batches/computed_pack.h"
#include "core/train/models/policy.h"
#include "tests/core/train/trained.h"
#include "tests/golden_models.h"
#include "tests/parity.h"
#include "tests/tensor_difference.h"
#include "tests/tree.h"

namespace xrun::fold_oracle_test {

namespace {

using Gradients = std::map<std::string, at::Tensor>;

constexpr int32_t kVocab = 131;  // of the golden models
constexpr double kExact = 1e-10;
constexpr double kWrong = 1e-4;  // a million times kExact; the least of the controls is above 1e-2

// The largest difference of a tensor's gradients, relative to its largest.
double deviation(const Gradients& got, const Gradients& want) {
  EXPECT_EQ(got.size(), want.size());
  double worst = 0;
  for (const auto& [name, gradient] : want) {
    worst = std::max(worst, relative_difference(got.at(name), gradient));
  }
  return worst;
}

Gradients take_gradients(std::vector<Parameter>& parameters) {
  Gradients all;
  for (Parameter& one : parameters) {
    if (one.master.grad().defined()) all[one.name] = one.master.grad().clone();
    one.master.mutable_grad() = at::Tensor();
  }
  return all;
}

// DPO against the uniform distribution: a reference whose log-probs need no model.
at::Tensor dpo_losses(MicroBatch& micro, const std::function<at::Tensor(const View&)>& logprob) {
  const auto ratio = [&](const View& view) {
    return logprob(view).add(view.field("length").to(at::kDouble).mul(std::log(kVocab)));
  };
  return at::log_sigmoid(ratio(micro.chosen()).sub(ratio(micro.rejected())).mul(0.1)).neg();
}

class FoldOracle : public testing::TestWithParam<std::string> {
 protected:
  struct Step {
    Gradients gradients;
    double loss, computed;
  };
  enum class Kind { kDpo, kSft };

  std::shared_ptr<Policy> open(c10::ScalarType dtype) const {
    PolicyOptions options;
    options.dtype = dtype;
    const std::string dir = source_path("tests/golden/models/") + GetParam();
    if (read_model_config(dir).moe.experts > 0) options.moe_aux = 0.5;
    return Policy::open(dir, options);
  }

  // A step over six pairs in two packs.
  static Step step(const std::shared_ptr<Policy>& policy, Kind kind, FoldMode mode) {
    AdamW adamw({policy}, {.lr = 1e-3});
    const auto batch = tiny_batch(shared_prefix_pairs(6, 3, kVocab), 3, fold_info(mode));
    Step out{{}, 0, 0};
    for (const auto& micro : batch->micros()) {
      out.computed += static_cast<double>(micro->computed(policy->model()).token_count());
    }
    const Objective objective = [&](MicroBatch& micro) {
      ObjectiveResult result;
      if (kind == Kind::kSft) {
        result.losses.emplace_back(Unit::kToken, policy->token_logprob(micro.all()).neg());
      } else {
        const auto logprob = [&](const View& view) { return policy->logprob(view); };
        result.losses.emplace_back(Unit::kPair, dpo_losses(micro, logprob));
      }
      return result;
    };
    StepOptions options;
    options.read_gradients = [&] { out.gradients = take_gradients(policy->parameters()); };
    out.loss = value(train_step({{batch.get(), objective}}, &adamw, options), "loss");
    EXPECT_EQ(out.gradients.size(), policy->parameters().size());
    return out;
  }

  void expect_folded_is_unfolded(c10::ScalarType dtype, double loss, double gradient) const {
    const auto policy = open(dtype);
    for (const Kind kind : {Kind::kDpo, Kind::kSft}) {
      SCOPED_TRACE(kind == Kind::kDpo ? "DPO" : "SFT");
      const Step whole = step(policy, kind, FoldMode::kNever);
      const Step folded = step(policy, kind, FoldMode::kAlways);
      EXPECT_LT(folded.computed, 0.8 * whole.computed);
      expect_parity(folded.loss, whole.loss, loss * whole.loss);
      const double apart = deviation(folded.gradients, whole.gradients);
      EXPECT_LT(apart, gradient);
      note_parity(apart, gradient);
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Family, FoldOracle,
                         testing::ValuesIn(golden_models({"untied", "qwen3_moe_window"})),
                         [](const auto& info) { return info.param; });

}  // namespace

TEST_P(FoldOracle, InFp64AFoldedStepMatchesEveryGradientOfTheSequences) {
  expect_folded_is_unfolded(at::kDouble, 1e-13, kExact);
}

TEST_P(FoldOracle, InFp32AFoldedStepMatchesEveryGradientOfTheSequences) {
  expect_folded_is_unfolded(at::kFloat, 1e-6, 1e-5);
}

// Otherwise the oracle would be another model.
TEST_P(FoldOracle, ComputesTheFunctionThatIsTrained) {
  for (const Kind kind : {Kind::kDpo, Kind::kSft}) {
    const Step exact = step(open(at::kDouble), kind, FoldMode::kNever);
    const Step trained = step(open(at::kFloat), kind, FoldMode::kNever);
    EXPECT_NEAR(trained.loss, exact.loss, 1e-5 * exact.loss);
    for (const auto& [name, gradient] : exact.gradients) {
      EXPECT_LT(relative_difference(trained.gradients.at(name).to(at::kDouble), gradient), 1e-4)
          << name;
    }
  }
}

namespace {

// A prompt over two answers that differ from their first token on, as a tree of three nodes whose
// layout a test may change.
class FoldControl : public testing::Test {
 protected:
  static constexpr int64_t kPrompt = 11, kChosen = 9, kRejected = 7;

  void open(const std::string& model) {
    policy_ = Policy::open(source_path("tests/golden/models/") + model, {.dtype = at::kDouble});
    const auto ids = [](int64_t count, int32_t first) {
      std::vector<int32_t> list;
      for (int32_t i = 0; i < count; ++i) list.push_back((first + 17 * i * i + 5 * i) % kVocab);
      return list;
    };
    const std::vector<TinyPair> pairs = {{ids(kPrompt, 3), ids(kChosen, 40), ids(kRejected, 77)}};
    const auto whole = tiny_batch(pairs, 1, fold_info(FoldMode::kNever));
    batch_ = tiny_batch(pairs, 1, fold_info(FoldMode::kAlways));
    MicroBatch& unfolded = *whole->micros()[0];
    wanted_ = gradients(unfolded, unfolded.computed(policy_->model()).input);
    input_ = micro().computed(policy_->model()).input;
    EXPECT_EQ(input_.parent, (std::vector<int32_t>{-1, 0, 0}));
    EXPECT_LT(deviation(folded(input_), wanted_), kExact);
  }
  MicroBatch& micro() const { return *batch_->micros()[0]; }

  // Those of the pair's loss, where the model computes `input` in place of the micro-batch's own.
  Gradients gradients(MicroBatch& micro, const PackInput& input) {
    Model& model = policy_->model();
    const ComputedPack& pack = micro.computed(model);
    const at::Tensor rows =
        model.token_logprob(input, pack.row_hidden, micro.row_target(), /*head_mb=*/64);
    const at::Tensor losses =
        dpo_losses(micro, [&](const View& view) { return view.sum(view.select_rows(rows)); });
    loss_ = losses.sum().item<double>();
    losses.sum().backward();
    return take_gradients(policy_->parameters());
  }
  Gradients folded(const PackInput& input) { return gradients(micro(), input); }

  std::shared_ptr<Policy> policy_;
  std::shared_ptr<Batch> batch_;
  PackInput input_;  // of the tree
  Gradients wanted_;
  double loss_ = 0;  // of the last gradients
};

// Attention over a tree of a prompt and its answers in two parts, merged by their log-sum-exps:
// every node over itself, and the answers over the prompt.
template <bool kDetached>
at::Tensor merged_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            at::IntArrayRef cu_seqlens, double scale, int64_t /*window*/,
                            at::IntArrayRef parent) {
  if (parent.empty()) return varlen_attention_lse(q, k, v, {cu_seqlens.vec()}, scale).out;
  const int64_t P = cu_seqlens[1], S = q.size(0) - P, heads = q.size(1);
  const AttentionResult own = varlen_attention_lse(q, k, v, {cu_seqlens.vec()}, scale);
  const auto rows = [&](const at::Tensor& x, int64_t begin, int64_t n) {
    return head_copies(x, heads).narrow(0, begin, n).transpose(0, 1);
  };
  const at::Tensor scores = rows(q, P, S).matmul(rows(k, 0, P).transpose(1, 2)).mul(scale);
  at::Tensor own_lse = own.lse.narrow(1, P, S), above_lse = at::logsumexp(scores, -1);
  if (kDetached) {
    own_lse = own_lse.detach();
    above_lse = above_lse.detach();
  }
  const at::Tensor above = at::softmax(scores, -1).matmul(rows(v, 0, P));
  const at::Tensor share = at::sigmoid(own_lse.sub(above_lse)).unsqueeze(2);
  const at::Tensor merged = above.add(share.mul(rows(own.out, P, S).sub(above)));
  return at::cat({own.out.narrow(0, 0, P), merged.transpose(0, 1)}, 0);
}

}  // namespace

TEST_F(FoldControl, FlatPositionsAreFarOff) {
  for (const char* model : {"untied", "gpt2"}) {
    open(model);
    input_.position_ids = at::arange(input_.tokens.size(0), at::kLong);
    EXPECT_GT(deviation(folded(input_), wanted_), kWrong) << model;
  }
}

TEST_F(FoldControl, ASiblingThatIsVisibleIsFarOff) {
  for (const char* model : {"untied", "gpt2", "qwen3_moe"}) {
    open(model);
    input_.parent = {-1, 0, 1};
    EXPECT_GT(deviation(folded(input_), wanted_), kWrong) << model;
  }
}

// Flat distance puts the whole prompt outside the window of the second answer, since the first is
// between them and is longer than the window: that is the answer without a parent, at its
// positions.
TEST_F(FoldControl, AWindowByFlatDistanceIsFarOff) {
  open("qwen3_moe_window");
  for (const int64_t layer : {0, 1}) {
    const int64_t window = policy_->model().config().window(layer);
    ASSERT_GT(window, 1);
    ASSERT_LT(window, kChosen);
  }
  input_.parent = {-1, 0, -1};
  EXPECT_GT(deviation(folded(input_), wanted_), kWrong);
}

// Our kernel has no merge whose log-sum-exp could lose its gradient; two attentions merged by
// theirs have, where LibTorch's own operators are merged (their log-sum-exp is not differentiable).
TEST_F(FoldControl, ALogSumExpWithoutGradientIsFarOffAtTheSameLoss) {
  open("untied");
  folded(input_);
  const double loss = loss_;
  const auto through = [&](auto attention) {
    torch::Library ours(torch::Library::IMPL, "xrun", c10::DispatchKey::AutogradCPU, __FILE__,
                        __LINE__);
    ours.impl("varlen_attention", attention);
    const Gradients got = folded(input_);
    EXPECT_NEAR(loss_, loss, 1e-13);
    return deviation(got, wanted_);
  };
  EXPECT_LT(through(&merged_attention<false>), kExact);
  EXPECT_GT(through(&merged_attention<true>), kWrong);
  EXPECT_LT(deviation(folded(input_), wanted_), kExact);  // and our own attention again
}

}  // namespace xrun::fold_oracle_test
