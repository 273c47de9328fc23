// linear_head on a GPU against the CPU's kernels, values and gradients: more rows than are kept,
// rows and targets that repeat, equal logits, padding.

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "core/model/ops/linear_head.h"
#include "tests/gpu/plugin.h"
#include "tests/tensor_difference.h"

namespace xrun::linear_head_cuda_test {
namespace {

struct Problem {
  at::Tensor hidden, weight, index, target;
  HeadOptions options;
};

struct HeadRun {
  HeadResult result;
  at::Tensor hidden, weight;  // gradients
};

// Three targets per row, of which two are the same, below 1000 of 1003 columns.
Problem problem(int64_t rows, at::ScalarType type) {
  at::manual_seed(11);
  const at::Tensor target = at::randint(1000, {rows, 2}, at::kLong);
  Problem p{at::randn({200, 64}).to(type),
            at::randn({1003, 64}).mul(0.1).to(type),
            at::randint(200, {rows}, at::kLong),
            at::cat({target, target.narrow(1, 0, 1)}, 1),
            {}};
  p.options.temperature = 0.8;
  p.options.columns = 1000;
  p.options.entropy = p.options.lse = true;
  p.options.top_k = 5;
  return p;
}

HeadRun run(const Problem& p, c10::Device device, int64_t head_mb) {
  HeadOptions options = p.options;
  options.head_mb = head_mb;
  const at::Tensor h = p.hidden.detach().to(device).clone().requires_grad_();
  const at::Tensor w = p.weight.detach().to(device).clone().requires_grad_();
  const HeadResult all = linear_head(h, w, p.index.to(device), p.target.to(device), options);
  (all.logprob.sum() + all.entropy.sum() * 2 - all.lse.sum() + all.top_logprob.sum()).backward();
  return {all, h.grad(), w.grad()};
}

void expect_close(const at::Tensor& got, const at::Tensor& wanted, double tolerance,
                  const char* what) {
  EXPECT_LT(relative_difference(got, wanted), tolerance) << what;
}

const c10::Device kGpu(c10::kCUDA, 0);

class LinearHeadCuda : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    if (cuda_plugin() == nullptr) GTEST_SKIP() << "no CUDA driver";
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  }
};

TEST_P(LinearHeadCuda, AgreesWithTheCpuInEveryOutputAndGradient) {
  const bool narrow = GetParam() == at::kBFloat16;
  const double of_value = narrow ? 5e-2 : 1e-5, of_gradient = narrow ? 2e-2 : 1e-4;
  const Problem p = problem(700, GetParam());
  const HeadRun want = run(p, c10::kCPU, 64);
  for (const int64_t head_mb : {64, 1}) {
    const HeadRun got = run(p, kGpu, head_mb);
    expect_close(got.result.logprob, want.result.logprob, of_value, "logprob");
    expect_close(got.result.entropy, want.result.entropy, of_value, "entropy");
    expect_close(got.result.lse, want.result.lse, of_value, "lse");
    expect_close(got.result.top_logprob, want.result.top_logprob, of_value, "top_logprob");
    expect_close(got.hidden, want.hidden, of_gradient, "hidden");
    expect_close(got.weight, want.weight, of_gradient, "weight");
    // Nearly equal logits may swap order between the devices; each id still has its log-prob.
    Problem chosen = p;
    chosen.target = got.result.top_id.cpu();
    const at::NoGradGuard no_grad;
    expect_close(got.result.top_logprob,
                 linear_head(p.hidden, p.weight, p.index, chosen.target, p.options).logprob,
                 of_value, "log-probs of top_id");
  }
}

// Three blocks of rows, of which the first is kept, all, or none.
TEST_P(LinearHeadCuda, RowsBeyondTheMemoryGiveTheSameBits) {
  const Problem p = problem(9000, GetParam());
  const HeadRun kept = run(p, kGpu, 64);
  for (const int64_t head_mb : {64, 20, 0}) {
    const HeadRun got = run(p, kGpu, head_mb);
    EXPECT_TRUE(got.result.logprob.equal(kept.result.logprob)) << head_mb;
    EXPECT_TRUE(got.result.top_id.equal(kept.result.top_id)) << head_mb;
    EXPECT_TRUE(got.result.top_logprob.equal(kept.result.top_logprob)) << head_mb;
    EXPECT_TRUE(got.hidden.equal(kept.hidden)) << head_mb;
    EXPECT_TRUE(got.weight.equal(kept.weight)) << head_mb;
  }
}

TEST_P(LinearHeadCuda, TopOfEqualLogitsHasTheLowestIds) {
  const at::Tensor hidden = at::ones({1, 8}, GetParam()), weight = at::zeros({600, 8}, GetParam());
  weight.narrow(0, 300, 2).fill_(2);
  HeadOptions options;
  options.top_k = 5;
  const at::Tensor zero = at::zeros({1}, at::kLong).to(kGpu);
  const at::Tensor id =
      linear_head(hidden.to(kGpu), weight.to(kGpu), zero, zero, options).top_id.cpu();
  EXPECT_TRUE(id.equal(at::tensor({300, 301, 0, 1, 2}, at::kLong).view({1, 5})));
}

TEST_P(LinearHeadCuda, ATargetBeyondTheColumnsHasNoLogProb) {
  Problem p = problem(3, GetParam());
  p.target.fill_(1001);
  EXPECT_TRUE(run(p, kGpu, 64).result.logprob.isnan().all().item<bool>());
}

INSTANTIATE_TEST_SUITE_P(Types, LinearHeadCuda, testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return c10::toString(info.param); });

}  // namespace
}  // namespace xrun::linear_head_cuda_test
