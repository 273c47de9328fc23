// The composed form of attention against the CPU's flash attention, and the forms of a pack that
// library kernels take.

#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/model/ops/attention_op.h"
#include "tests/tensor_difference.h"

namespace xrun::attention_composed_test {
namespace {

const std::vector<int64_t> kBorders = {0, 7, 7, 8, 27};  // one is empty, one per token

TEST(AttentionComposed, MatchesTheCpu) {
  at::manual_seed(3);
  const auto forward = find_op<AttentionForward>("xrun::varlen_attention_forward");
  const auto backward = find_op<AttentionBackward>("xrun::varlen_attention_backward");
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t window : {0, 2, 5, 100}) {
      const double tolerance = type == at::kFloat ? 3e-6 : 2e-2;
      const at::Tensor q = at::randn({27, 6, 10}).to(type), k = at::randn({27, 2, 10}).to(type);
      const at::Tensor v = at::randn({27, 2, 10}).to(type), g = at::randn({27, 6, 10}).to(type);
      const auto [out, lse] = attention_forward_composed(q, k, v, kBorders, 0.4, window, {});
      const auto [out0, lse0] = forward.call(q, k, v, kBorders, 0.4, window, {});
      EXPECT_LT(relative_difference(out, out0), tolerance);
      EXPECT_LT(relative_difference(lse, lse0), type == at::kFloat ? 3e-6 : 3e-5);
      const auto got =
          attention_backward_composed(g, q, k, v, out0, lse0, kBorders, 0.4, window, {});
      const auto wanted = backward.call(g, q, k, v, out0, lse0, kBorders, 0.4, window, {});
      EXPECT_LT(relative_difference(std::get<0>(got), std::get<0>(wanted)), tolerance);
      EXPECT_LT(relative_difference(std::get<1>(got), std::get<1>(wanted)), tolerance);
      EXPECT_LT(relative_difference(std::get<2>(got), std::get<2>(wanted)), tolerance);
    }
  }
}

TEST(AttentionComposed, EmptySegmentsAreDroppedFromThePack) {
  const PackBorders pack = pack_borders(kBorders, c10::kCPU);
  EXPECT_EQ(pack.count, 3);
  EXPECT_EQ(pack.longest, 19);
  EXPECT_EQ(pack.padded, 32);
  EXPECT_EQ(pack.cu_seqlens.scalar_type(), at::kInt);
  EXPECT_TRUE(at::equal(pack.cu_seqlens, at::tensor({0, 7, 8, 27}, at::kInt)));
  EXPECT_EQ(pack.padded_row[7].item<int64_t>(), 32);
  EXPECT_EQ(pack.padded_row[26].item<int64_t>(), 64 + 18);
  const std::vector<int64_t> other = {0, 27};
  EXPECT_EQ(pack_borders(other, c10::kCPU).count, 1);
}

TEST(AttentionComposed, LogSumExpsGoToThePaddedFormAndBack) {
  const PackBorders pack = pack_borders(kBorders, c10::kCPU);
  const at::Tensor lse = at::randn({6, 27});
  const at::Tensor padded = padded_lse(lse, pack);
  EXPECT_EQ(padded.sizes(), at::IntArrayRef({3, 6, 32}));
  EXPECT_EQ(padded[2][4][18].item<float>(), lse[4][26].item<float>());
  EXPECT_TRUE(std::isinf(padded[2][4][19].item<float>()));
  EXPECT_TRUE(at::equal(unpadded_lse(padded, pack), lse));
  EXPECT_THROW(unpadded_lse(at::randn({3, 6, 27}), pack), c10::Error);
}

TEST(AttentionComposed, KeyHeadsAreCopiedForTheirGroupAndSummed) {
  const at::Tensor k = at::randn({5, 2, 4});
  const at::Tensor copies = head_copies(k, 6);
  EXPECT_TRUE(at::equal(copies.select(1, 2), k.select(1, 0)));
  EXPECT_TRUE(at::equal(copies.select(1, 3), k.select(1, 1)));
  EXPECT_LT(relative_difference(sum_of_copies(copies, 2), k.mul(3)), 1e-6);
}

TEST(AttentionComposed, RefusesInvalidBoundaries) {
  const at::Tensor q = at::randn({4, 2, 8}), k = at::randn({4, 1, 8});
  const std::vector<int64_t> falling = {0, 3, 2, 4}, short_of = {0, 3};
  for (const auto& borders : {falling, short_of, std::vector<int64_t>()}) {
    EXPECT_THROW(attention_forward_composed(q, k, k, borders, 1, 0, {}), Error);
  }
  const std::vector<int64_t> all = {0, 4};
  EXPECT_THROW(
      attention_forward_composed(q, at::randn({4, 3, 8}), at::randn({4, 3, 8}), all, 1, 0, {}),
      Error);
  EXPECT_THROW(attention_forward_composed(q, k, k, all, 1, -1, {}), Error);
}

}  // namespace
}  // namespace xrun::attention_composed_test
