// The head's ops on a GPU against the CPU's: compiled always, skipped where no driver is.

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "core/model/linear_head.h"
#include "core/model/linear_logprob.h"
#include "tests/gpu/plugin.h"

namespace xrun {
namespace {

struct Result {
  at::Tensor logprob, dhidden, dweight;
};

Result run(at::Tensor hidden, at::Tensor weight, const at::Tensor& index, const at::Tensor& target,
           const at::Tensor& grad, int64_t head_mb) {
  hidden = hidden.detach().requires_grad_();
  weight = weight.detach().requires_grad_();
  const at::Tensor logprob = linear_logprob(hidden, weight, index, target, head_mb);
  logprob.backward(grad);
  return {logprob.detach(), hidden.grad(), weight.grad()};
}

void expect_close(const at::Tensor& got, const at::Tensor& wanted, double tolerance) {
  const double scale = wanted.abs().max().item<double>() + 1e-12;
  EXPECT_LT(got.cpu().sub(wanted).abs().max().item<double>() / scale, tolerance);
}

TEST(LogprobCuda, AgreesWithTheCpuKeptAndRecomputed) {
  if (cuda_plugin() == nullptr) GTEST_SKIP() << "no CUDA driver";
  const at::Tensor hidden = at::randn({37, 64}), weight = at::randn({1003, 64}).mul(0.1);
  const at::Tensor index = at::randint(37, {29}, at::kLong);
  const at::Tensor target = at::randint(1003, {29}, at::kLong), grad = at::randn({29});
  const Result wanted = run(hidden, weight, index, target, grad, 64);
  for (const int64_t head_mb : {64, 0}) {
    const Result got =
        run(hidden.cuda(), weight.cuda(), index.cuda(), target.cuda(), grad.cuda(), head_mb);
    expect_close(got.logprob, wanted.logprob, 1e-5);
    expect_close(got.dhidden, wanted.dhidden, 1e-4);
    expect_close(got.dweight, wanted.dweight, 1e-4);
  }
}

TEST(HeadCuda, AgreesWithTheCpuInEveryOutputAndGradient) {
  if (cuda_plugin() == nullptr) GTEST_SKIP() << "no CUDA driver";
  const at::Tensor hidden = at::randn({37, 64}), weight = at::randn({1003, 64}).mul(0.1);
  const at::Tensor index = at::randint(37, {29}, at::kLong);
  const at::Tensor target = at::randint(999, {29, 2}, at::kLong);
  HeadOptions options;
  options.temperature = 0.8;
  options.columns = 1000;
  options.entropy = options.lse = true;
  options.top_k = 5;
  const auto run_on = [&](at::Device device, int64_t head_mb) {
    options.head_mb = head_mb;
    const at::Tensor h = hidden.to(device).requires_grad_(), w = weight.to(device).requires_grad_();
    const HeadResult all = linear_head(h, w, index.to(device), target.to(device), options);
    (all.logprob.sum() + all.entropy.sum() * 2 - all.lse.sum() + all.top_logprob.sum()).backward();
    return std::vector<at::Tensor>{all.logprob, all.entropy, all.lse, all.top_logprob,
                                   all.top_id,  h.grad(),    w.grad()};
  };
  const std::vector<at::Tensor> wanted = run_on(at::kCPU, 64);
  for (const int64_t head_mb : {64, 0}) {
    const std::vector<at::Tensor> got = run_on(at::kCUDA, head_mb);
    EXPECT_TRUE(got[4].cpu().equal(wanted[4]));
    for (const size_t i : {0, 1, 2, 3, 5, 6}) {
      expect_close(got[i].detach(), wanted[i].detach(), i < 4 ? 1e-5 : 1e-4);
    }
  }
}

}  // namespace
}  // namespace xrun
