#pragma once
// Gradients of an op against central differences along random directions, in the op's own type.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "core/base/philox.h"

namespace xrun {

// Returns uniform fp32 numbers in [-scale, scale], a function of the seed.
inline at::Tensor random_tensor(std::vector<int64_t> shape, uint64_t seed, double scale = 1.0) {
  at::Tensor x = at::empty(shape, at::kFloat);
  float* const out = x.mutable_data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double unit = philox_unit(seed, 2, 0, static_cast<uint64_t>(i));
    out[i] = static_cast<float>((2 * unit - 1) * scale);
  }
  return x;
}

struct GradientCheck {
  double step = 1e-2;       // length of the difference along a direction of unit entries
  double tolerance = 1e-3;  // relative to the norm of the gradient (docs/numerics.md)
  int directions = 6;
};

// Checks d sum(f(inputs) * c) / d inputs for a fixed random c. `f` maps the inputs to any tensor;
// it is differenced in fp32 with the sum taken in fp64. The scale of the tolerance is the norm of
// the gradient times that of the direction over sqrt(n), so a zero gradient cannot pass for one.
inline void expect_gradients(const std::function<at::Tensor(const std::vector<at::Tensor>&)>& f,
                             std::vector<at::Tensor> inputs, const GradientCheck& check = {}) {
  for (at::Tensor& x : inputs) x = x.detach().clone().set_requires_grad(true);
  const at::Tensor y = f(inputs);
  const at::Tensor c = random_tensor(y.sizes().vec(), 99);
  y.backward(c);
  const auto value = [&](size_t which, const at::Tensor& moved) {
    std::vector<at::Tensor> at_point;
    for (const at::Tensor& x : inputs) at_point.push_back(x.detach());
    at_point[which] = moved;
    return (f(at_point).to(at::kDouble) * c).sum().item<double>();
  };
  for (size_t which = 0; which < inputs.size(); ++which) {
    const at::Tensor x = inputs[which].detach(), grad = inputs[which].grad();
    ASSERT_TRUE(grad.defined()) << "input " << which << " got no gradient";
    ASSERT_EQ(grad.sizes(), x.sizes());
    const double scale = grad.to(at::kDouble).norm().item<double>();
    for (int d = 0; d < check.directions; ++d) {
      at::Tensor direction = random_tensor(x.sizes().vec(), 1000 + static_cast<uint64_t>(d));
      const double length = direction.norm().item<double>();
      direction = direction / length;
      const double numeric =
          (value(which, x + direction * check.step) - value(which, x - direction * check.step)) /
          (2 * check.step);
      const double analytic = (grad.to(at::kDouble) * direction).sum().item<double>();
      EXPECT_NEAR(analytic, numeric, check.tolerance * (scale + 1e-3))
          << "input " << which << ", direction " << d;
    }
    EXPECT_GT(scale, 0) << "input " << which << ": a zero gradient proves nothing";
  }
}

}  // namespace xrun
