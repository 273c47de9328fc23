// Targets alone on a GPU against the CPU: always compiled, skipped without a driver.

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "core/model/ops/linear_head.h"
#include "tests/gpu/plugin.h"
#include "tests/tensor_difference.h"

namespace xrun::head_targets_cuda_test {
namespace {

struct Result {
  at::Tensor logprob, dhidden, dweight;
};

Result run(at::Tensor hidden, at::Tensor weight, const at::Tensor& index, const at::Tensor& target,
           const at::Tensor& grad, int64_t head_mb) {
  hidden = hidden.detach().requires_grad_();
  weight = weight.detach().requires_grad_();
  const at::Tensor logprob =
      linear_head(hidden, weight, index, target, {.head_mb = head_mb}).logprob;
  logprob.backward(grad);
  return {logprob.detach(), hidden.grad(), weight.grad()};
}

TEST(HeadTargetsCuda, AgreesWithTheCpuKeptAndRecomputed) {
  if (cuda_plugin() == nullptr) GTEST_SKIP() << "no CUDA driver";
  const at::Tensor hidden = at::randn({37, 64}), weight = at::randn({1003, 64}).mul(0.1);
  const at::Tensor index = at::randint(37, {29}, at::kLong);
  const at::Tensor target = at::randint(1003, {29}, at::kLong), grad = at::randn({29});
  const Result wanted = run(hidden, weight, index, target, grad, 64);
  for (const int64_t head_mb : {64, 0}) {
    const Result got =
        run(hidden.cuda(), weight.cuda(), index.cuda(), target.cuda(), grad.cuda(), head_mb);
    EXPECT_LT(relative_difference(got.logprob, wanted.logprob), 1e-5);
    EXPECT_LT(relative_difference(got.dhidden, wanted.dhidden), 1e-4);
    EXPECT_LT(relative_difference(got.dweight, wanted.dweight), 1e-4);
  }
}

}  // namespace
}  // namespace xrun::head_targets_cuda_test
