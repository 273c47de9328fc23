// Products against fp64, over shapes at the edges, transposed and strided operands.

#include "core/model/ops/matrix_product.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "tests/gradient_check.h"

namespace xrun::matrix_product_test {

TEST(MatrixProduct, AgreesWithDoublePrecisionWhateverTheStrides) {
  for (const auto& [M, K, N] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1},
                                {7, 1, 5},
                                {1, 33, 2},
                                {33, 130, 517},
                                {256, 64, 48},
                                {3, 2050, 1}}) {
    const at::Tensor a = random_tensor({M, K}, 1), b = random_tensor({K, N}, 2);
    const at::Tensor want = a.to(at::kDouble).matmul(b.to(at::kDouble));
    const at::Tensor wide = random_tensor({M, K + 9}, 3);
    wide.narrow(1, 4, K).copy_(a);
    const at::Tensor broad = random_tensor({K, N + 5}, 4), apart = random_tensor({M, N + 7}, 5);
    broad.narrow(1, 2, N).copy_(b);
    const at::Tensor around = apart.clone();
    const at::Tensor lefts[] = {a, a.t().contiguous().t(), wide.narrow(1, 4, K)};
    const at::Tensor rights[] = {b, b.t().contiguous().t(), broad.narrow(1, 2, N)};
    const at::Tensor outs[] = {at::empty({M, N}, at::kFloat), apart.narrow(1, 3, N)};
    for (const at::Tensor& left : lefts) {
      for (const at::Tensor& right : rights) {
        for (const at::Tensor& out : outs) {
          multiply_into(out, left, right);
          const double tolerance = 1e-6 * static_cast<double>(K);
          EXPECT_LT((out.to(at::kDouble) - want).abs().max().item<double>(), tolerance) << M;
          multiply_into(out, left, right, Into::kAdd);
          EXPECT_LT((out.to(at::kDouble) - want * 2).abs().max().item<double>(), 2 * tolerance);
        }
      }
    }
    EXPECT_TRUE(apart.narrow(1, 0, 3).equal(around.narrow(1, 0, 3))) << "beside a strided result";
    EXPECT_TRUE(apart.narrow(1, N + 3, 4).equal(around.narrow(1, N + 3, 4)));
  }
}

TEST(MatrixProduct, AnEmptySumAddsNothing) {
  const at::Tensor out = random_tensor({3, 4}, 1), before = out.clone();
  multiply_into(out, at::empty({3, 0}), at::empty({0, 4}), Into::kAdd);
  EXPECT_TRUE(out.equal(before));
  multiply_into(out, at::empty({3, 0}), at::empty({0, 4}));
  EXPECT_EQ(out.abs().max().item<double>(), 0);
  multiply_into(at::empty({0, 4}), at::empty({0, 2}), at::empty({2, 4}));
}

TEST(MatrixProduct, GivesTheSameBitsAgain) {
  const at::Tensor a = random_tensor({301, 77}, 1), b = random_tensor({77, 1031}, 2);
  const at::Tensor one = at::empty({301, 1031}), two = at::empty({301, 1031});
  multiply_into(one, a, b);
  multiply_into(two, a, b);
  EXPECT_TRUE(one.equal(two));
}

TEST(MatrixProduct, APackedWeightGivesTheSameBits) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const auto& [M, K, N] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1},
                                  {8, 300, 517},
                                  {40, 64, 64},
                                  {3, 130, 33}}) {
      const at::Tensor x = random_tensor({M, K}, 1), bias = random_tensor({N}, 3);
      const at::Tensor weight = random_tensor({N, K}, 2).to(type);
      const at::Tensor want = at::empty({M, N}), got = at::empty({M, N});
      multiply_rows_into(want, x, weight.to(at::kFloat), bias);
      const PackedMatrix packed = pack_matrix(weight, at::empty({packed_floats(N, K)}));
      multiply_rows_into(got, x, packed, bias);
      EXPECT_TRUE(got.equal(want)) << M << " x " << K << " x " << N;
    }
  }
}

}  // namespace xrun::matrix_product_test
