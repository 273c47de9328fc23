// Products in fp32 of narrower operands: one rounding, correct gradients.

#include "core/model/ops/linear.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/linear.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/model/ops/op.h"
#include "tests/gradient_check.h"

namespace xrun::linear_test {

namespace {

struct Operands {
  at::Tensor x, weight, bias;
  Operands to(at::ScalarType type) const {
    return {leaf(x, type), leaf(weight, type), leaf(bias, type)};
  }
  static at::Tensor leaf(const at::Tensor& t, at::ScalarType type) {
    return t.detach().to(type, false, /*copy=*/true).set_requires_grad(true);
  }
};

Operands some(int64_t T, at::ScalarType type) {
  return Operands{random_tensor({T, 37}, 1, 2.0), random_tensor({11, 37}, 2),
                  random_tensor({11}, 3)}
      .to(type);
}

at::Tensor own_op(const at::Tensor& x, const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias) {
  using Signature =
      at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&);
  return find_op<Signature>("xrun::linear").call(x, weight, bias);
}

}  // namespace

TEST(Linear, StorageTypeMatchesAtensLinear) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const Operands in = some(5, type);
    EXPECT_TRUE(linear(in.x, in.weight, in.bias, GemmType::kStorage)
                    .equal(at::linear(in.x, in.weight, in.bias)));
  }
  const Operands in = some(5, at::kFloat);
  EXPECT_TRUE(linear(in.x, in.weight, {}, GemmType::kFloat).equal(at::linear(in.x, in.weight)));
}

TEST(Linear, UpcastProductsRoundOnce) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    for (const int64_t T : {0, 1, 130}) {
      const Operands in = some(T, type), wide = in.to(at::kDouble);
      const double bits = type == at::kHalf ? 0x1p-11 : 0x1p-8;  // half a unit in the last place
      const at::Tensor y = linear(in.x, in.weight, in.bias, GemmType::kFloat);
      const at::Tensor want = at::linear(wide.x, wide.weight, wide.bias);
      EXPECT_EQ(y.scalar_type(), type);
      const auto near = [&](const at::Tensor& got, const at::Tensor& exact) {
        const at::Tensor error = (got.detach().to(at::kDouble) - exact.detach()).abs();
        return error.le(exact.detach().abs() * (1.01 * bits) + 2e-5).all().item<bool>();
      };
      EXPECT_TRUE(near(y, want)) << T;
      const at::Tensor c = random_tensor({T, 11}, 4).to(type);
      y.backward(c);
      want.backward(c.to(at::kDouble));
      EXPECT_TRUE(near(in.x.grad(), wide.x.grad())) << T;
      EXPECT_TRUE(near(in.weight.grad(), wide.weight.grad())) << T;
      EXPECT_TRUE(near(in.bias.grad(), wide.bias.grad())) << T;
    }
  }
}

TEST(Linear, AgreesWithFiniteDifferences) {
  expect_gradients([](const std::vector<at::Tensor>& in) { return own_op(in[0], in[1], in[2]); },
                   {random_tensor({7, 9}, 1), random_tensor({5, 9}, 2), random_tensor({5}, 3)});
  expect_gradients(
      [](const std::vector<at::Tensor>& in) { return own_op(in[0], in[1], std::nullopt); },
      {random_tensor({7, 9}, 1), random_tensor({5, 9}, 2)});
}

TEST(Linear, ShapesThatDoNotFitAreNamed) {
  const at::Tensor x = random_tensor({4, 6}, 1).to(at::kBFloat16);
  try {
    linear(x, random_tensor({3, 5}, 2).to(at::kBFloat16), {}, GemmType::kFloat);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "linear: x is [4, 6], weight [3, 5]; wanted [T, in] and [out, in]");
  }
}

}  // namespace xrun::linear_test
