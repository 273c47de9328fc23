// The composed form of attention against the CPU's flash attention, and the forms of a pack that
// library kernels take.

#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/model/ops/attention_op.h"
#include "tests/error_of.h"
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
  EXPECT_TRUE(throws<c10::Error>(
      "the library's log-sum-exp is [3, 6, 27], wanted [3, H, 32]: this LibTorch", [&] {
        unpadded_lse(at::randn({3, 6, 27}), pack);
      }));
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
  const at::Tensor other_heads = at::randn({4, 3, 8});
  const struct {
    std::vector<int64_t> borders;
    at::Tensor keys;
    int64_t window;
    const char* piece;
  } cases[] = {
      {{0, 3, 2, 4}, k, 0, "cu_seqlens[2] is 2, wanted a number from 3, the boundary before it"},
      {{0, 3}, k, 0, "cu_seqlens[1] is 3, wanted 4, the number of rows"},
      {{}, k, 0, "cu_seqlens is empty, wanted the boundaries from 0 to 4"},
      {{0, 4}, other_heads, 0, "q is [4, 2, 8], k [4, 3, 8], v [4, 3, 8]; wanted q [T, H, K]"},
      {{0, 4}, k, -1, "window is -1, wanted 0 (all) or more"},
  };
  for (const auto& one : cases) {
    EXPECT_TRUE(throws<Error>(one.piece, [&] {
      attention_forward_composed(q, one.keys, one.keys, one.borders, 1, one.window, {});
    }));
  }
}

}  // namespace
}  // namespace xrun::attention_composed_test
