// Our ops on a GPU against the CPU's kernels, values and gradients.

#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "core/model/ops/attention.h"
#include "core/model/ops/linear.h"
#include "core/model/ops/rms_norm.h"
#include "core/model/ops/rope.h"
#include "core/model/ops/swiglu.h"
#include "tests/gpu/plugin.h"
#include "tests/tensor_difference.h"

namespace xrun::layers_cuda_test {
namespace {

using Tensors = std::vector<at::Tensor>;
using Layer = std::function<at::Tensor(const Tensors&)>;

// The layer's value and the gradients of its inputs under a fixed gradient, all on the CPU.
Tensors run(const Layer& layer, const Tensors& inputs, const at::Tensor& grad, c10::Device device) {
  Tensors leaves;
  for (const at::Tensor& one : inputs) {
    leaves.push_back(one.detach().to(device).clone().requires_grad_());
  }
  const at::Tensor y = layer(leaves);
  y.backward(grad.to(device));
  Tensors out{y.detach().cpu()};
  for (const at::Tensor& leaf : leaves) out.push_back(leaf.grad().cpu());
  return out;
}

void expect_same(const Layer& layer, const Tensors& inputs, double tolerance) {
  const at::Tensor grad = at::randn(layer(inputs).sizes()).to(inputs[0].scalar_type());
  const Tensors got = run(layer, inputs, grad, at::Device(at::kCUDA, 0));
  const Tensors wanted = run(layer, inputs, grad, at::kCPU);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_LT(relative_difference(got[i], wanted[i]), tolerance)
        << (i == 0 ? "the value" : "a gradient") << ", tensor " << i;
  }
}

class LayersCuda : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    if (cuda_plugin() == nullptr) GTEST_SKIP() << "no CUDA driver";
    at::manual_seed(11);
  }
  at::Tensor random(at::IntArrayRef sizes) const { return at::randn(sizes).to(GetParam()); }
  double tolerance() const { return GetParam() == at::kFloat ? 1e-5 : 2e-2; }
};

TEST_P(LayersCuda, RmsNorm) {
  expect_same([](const Tensors& x) { return rms_norm(x[0], x[1], 1e-5); },
              {random({37, 96}), random({96})}, tolerance());
}

TEST_P(LayersCuda, Rope) {
  const at::Tensor angle = at::randn({37, 16});
  expect_same(
      [&](const Tensors& x) {
        const auto device = x[0].device();
        return rope(x[0], {angle.cos().to(device), angle.sin().to(device)});
      },
      {random({37, 3, 32})}, tolerance());
}

TEST_P(LayersCuda, GatedSilu) {
  expect_same([](const Tensors& x) { return swiglu(x[0], x[1]); },
              {random({37, 50}), random({37, 50})}, tolerance());
}

TEST_P(LayersCuda, UpcastProduct) {
  expect_same([](const Tensors& x) { return linear(x[0], x[1], x[2], GemmType::kFloat); },
              {random({37, 48}), random({20, 48}), random({20})}, tolerance());
}

TEST_P(LayersCuda, Attention) {
  // 64: library kernels; 10: plain products, since those kernels need a multiple of 8
  for (const int64_t width : {64, 10}) {
    for (const int64_t window : {0, 5}) {
      const std::vector<int64_t> borders = {0, 7, 7, 8, 100};
      SCOPED_TRACE(width);
      SCOPED_TRACE(window);
      expect_same(
          [&](const Tensors& x) {
            return varlen_attention(x[0], x[1], x[2], {borders, {}, window}, 0.2);
          },
          {random({100, 6, width}), random({100, 2, width}), random({100, 2, width})}, tolerance());
    }
  }
}

// Without a window by library calls, merged; with one, and where no node has rows below it that a
// call could take, in plain products.
TEST_P(LayersCuda, AttentionOverTrees) {
  const std::vector<int64_t> nodes = {0, 40, 70, 70, 75, 100, 101, 130, 160},
                             parent = {-1, 0, 0, 2, 2, 4, -1, 6};
  for (const int64_t window : {0, 33}) {
    for (const int64_t width : {16, 20, 64}) {
      SCOPED_TRACE(window);
      expect_same(
          [&](const Tensors& x) {
            return varlen_attention(x[0], x[1], x[2], {nodes, parent, window}, 0.2);
          },
          {random({160, 6, width}), random({160, 2, width}), random({160, 2, width})}, tolerance());
    }
  }
}

TEST_P(LayersCuda, AttentionReturnsLogSumExp) {
  const std::vector<int64_t> borders = {0, 3, 70, 71};
  const at::Tensor q = random({71, 4, 64}), k = random({71, 2, 64}), v = random({71, 2, 64});
  const at::Tensor got = varlen_attention_lse(q.cuda(), k.cuda(), v.cuda(), {borders}, 0.2).lse;
  const at::Tensor wanted = varlen_attention_lse(q, k, v, {borders}, 0.2).lse;
  EXPECT_LT(largest_difference(got, wanted), 1e-3);
}

// Library kernels behave differently if no segment has two tokens.
TEST_P(LayersCuda, AttentionOverSingleTokens) {
  const std::vector<int64_t> borders = {0, 1, 2, 3};
  expect_same([&](const Tensors& x) { return varlen_attention(x[0], x[1], x[2], {borders}, 0.2); },
              {random({3, 6, 64}), random({3, 2, 64}), random({3, 2, 64})}, tolerance());
}

INSTANTIATE_TEST_SUITE_P(Types, LayersCuda, testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return c10::toString(info.param); });

}  // namespace
}  // namespace xrun::layers_cuda_test
