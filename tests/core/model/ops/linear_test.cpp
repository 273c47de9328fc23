// Products in fp32 of narrower operands: one rounding, correct gradients.

#include "core/model/ops/linear.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/linear.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/model/ops/op.h"
#include "tests/error_of.h"
#include "tests/gradient_check.h"

namespace xrun::linear_test {

namespace {

struct LinearOperands {
  at::Tensor x, weight, bias;
  LinearOperands to(at::ScalarType type) const {
    return {leaf(x, type), leaf(weight, type), leaf(bias, type)};
  }
  static at::Tensor leaf(const at::Tensor& t, at::ScalarType type) {
    return t.detach().to(type, false, /*copy=*/true).set_requires_grad(true);
  }
};

LinearOperands some(int64_t T, at::ScalarType type) {
  return LinearOperands{random_tensor({T, 37}, 1, 2.0), random_tensor({11, 37}, 2),
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

TEST(Linear, NarrowStorageTypesMatchAtensLinear) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf, at::kDouble}) {
    const LinearOperands in = some(5, type);
    EXPECT_TRUE(linear(in.x, in.weight, in.bias, GemmType::kStorage)
                    .equal(at::linear(in.x, in.weight, in.bias)));
  }
}

TEST(Linear, Fp32AgreesWithDoublePrecisionAndSoDoItsGradients) {
  for (const int64_t T : {0, 1, 130}) {
    const LinearOperands in = some(T, at::kFloat), wide = in.to(at::kDouble);
    const at::Tensor y = linear(in.x, in.weight, in.bias, GemmType::kStorage);
    const at::Tensor want = at::linear(wide.x, wide.weight, wide.bias);
    const at::Tensor c = random_tensor({T, 11}, 4);
    y.backward(c);
    want.backward(c.to(at::kDouble));
    EXPECT_TRUE(y.to(at::kDouble).allclose(want, 1e-5, 1e-5)) << T;
    EXPECT_TRUE(in.x.grad().to(at::kDouble).allclose(wide.x.grad(), 1e-5, 1e-5)) << T;
    EXPECT_TRUE(in.weight.grad().to(at::kDouble).allclose(wide.weight.grad(), 1e-5, 1e-4)) << T;
    EXPECT_TRUE(in.bias.grad().to(at::kDouble).allclose(wide.bias.grad(), 1e-5, 1e-5)) << T;
  }
}

// Returns true if every row of x weight^T has the bits of the whole product when fewer rows are
// multiplied, from the beginning, the middle and the end, by one thread and by two.
template <class Product>
bool rows_see_only_themselves(int64_t in, int64_t out, const Product& product) {
  const int threads = at::get_num_threads();
  const int64_t most = 530;
  const at::Tensor x = random_tensor({most, in}, 1), weight = random_tensor({out, in}, 2);
  const at::Tensor all = product(x, weight);
  bool same = true;
  for (const int count : {1, 2}) {
    at::set_num_threads(count);
    for (const int64_t n : {1, 2, 3, 5, 8, 15, 16, 65, 257, 513}) {
      for (const int64_t from : {int64_t{0}, (most - n) / 2, most - n}) {
        same = same && product(x.narrow(0, from, n), weight).equal(all.narrow(0, from, n));
      }
    }
  }
  at::set_num_threads(threads);
  return same;
}

TEST(Linear, ATokensResultHasTheSameBitsWhateverIsComputedBesideIt) {
  for (const auto& [in, out] : {std::pair{64, 64}, {577, 192}, {1100, 65}, {8, 1}}) {
    EXPECT_TRUE(rows_see_only_themselves(in, out,
                                         [](const at::Tensor& x, const at::Tensor& w) {
                                           return linear(x, w, {}, GemmType::kStorage);
                                         }))
        << in << " to " << out;
  }
  EXPECT_TRUE(rows_see_only_themselves(37, 40, [](const at::Tensor& x, const at::Tensor& w) {
    return linear(x.to(at::kBFloat16), w.to(at::kBFloat16), {}, GemmType::kFloat);
  }));
  const at::Tensor b = random_tensor({33, 16}, 5);
  EXPECT_TRUE(rows_see_only_themselves(37, 16, [&](const at::Tensor& x, const at::Tensor& w) {
    return low_rank(x, w, b, 0.7, GemmType::kStorage);
  }));
}

// The control: the check above must see that a BLAS picks its order of sums by the number of rows.
TEST(Linear, ABlasDoesNotKeepTheBitsOfARow) {
  EXPECT_FALSE(rows_see_only_themselves(
      577, 192, [](const at::Tensor& x, const at::Tensor& w) { return at::linear(x, w); }));
}

TEST(Linear, SavesItsInputForATrainedWeightOnly) {
  const at::Tensor x = random_tensor({4, 6}, 1).set_requires_grad(true);
  const at::Tensor weight = random_tensor({3, 6}, 2);
  const at::Tensor in = x.mul(1);
  const auto own = in.use_count();
  const at::Tensor y = linear(in, weight, {}, GemmType::kStorage);
  EXPECT_EQ(in.use_count(), own);
  const at::Tensor z = linear(in, weight.clone().set_requires_grad(true), {}, GemmType::kStorage);
  EXPECT_GT(in.use_count(), own);
  y.sum().backward();
  EXPECT_TRUE(x.grad().allclose(weight.sum(0).expand({4, 6})));
}

TEST(Linear, UpcastProductsRoundOnce) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    for (const int64_t T : {0, 1, 130}) {
      const LinearOperands in = some(T, type), wide = in.to(at::kDouble);
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
  EXPECT_EQ(message_of<Error>([&] {
              linear(x, random_tensor({3, 5}, 2).to(at::kBFloat16), {}, GemmType::kFloat);
            }),
            "linear: x is [4, 6], weight [3, 5]; wanted [T, in] and [out, in]");
}

}  // namespace xrun::linear_test
