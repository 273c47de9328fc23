// Attention over packs and its log-sum-exp against a masked softmax in fp64, and by differences.

#include "core/model/ops/attention.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/triu.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/error_of.h"
#include "tests/gradient_check.h"
#include "tests/tensor_difference.h"

namespace xrun::attention_test {

namespace {

using Inputs = std::vector<at::Tensor>;  // q, k, v

Inputs inputs(int64_t tokens, int64_t heads, int64_t groups, int64_t head_dim = 8) {
  return {random_tensor({tokens, heads, head_dim}, 1, 2.0),
          random_tensor({tokens, groups, head_dim}, 2, 2.0),
          random_tensor({tokens, groups, head_dim}, 3)};
}

// Segment by segment with a mask, in fp64.
AttentionResult reference(const Inputs& in, const std::vector<int64_t>& cu, double scale,
                          int64_t window) {
  const int64_t group = in[0].size(1) / in[1].size(1);
  std::vector<at::Tensor> outs, lses;
  for (size_t s = 0; s + 1 < cu.size(); ++s) {
    const int64_t n = cu[s + 1] - cu[s];
    const auto take = [&](const at::Tensor& x, int64_t repeat) {
      return x.narrow(0, cu[s], n).to(at::kDouble).permute({1, 0, 2}).repeat_interleave(repeat, 0);
    };
    const at::Tensor scores = take(in[0], 1).matmul(take(in[1], group).transpose(1, 2)) * scale;
    const at::Tensor all = at::ones({n, n}, at::kDouble);
    at::Tensor hidden = at::triu(all, 1) * -1e30;
    if (window > 0) hidden = hidden + all.tril(-window) * -1e30;
    lses.push_back(at::logsumexp(scores + hidden, -1));
    outs.push_back(at::softmax(scores + hidden, -1).matmul(take(in[2], group)).permute({1, 0, 2}));
  }
  return {at::cat(outs, 0), at::cat(lses, 1)};
}

// Values of both, and gradients of a sum over both.
void expect_agreement(const Inputs& at_point, const std::vector<int64_t>& cu, int64_t window) {
  Inputs in, want_in;
  for (const at::Tensor& x : at_point) {
    in.push_back(x.clone().set_requires_grad(true));
    want_in.push_back(x.clone().set_requires_grad(true));
  }
  const AttentionResult got = varlen_attention_lse(in[0], in[1], in[2], {cu, {}, window}, 0.35);
  const AttentionResult want = reference(want_in, cu, 0.35, window);
  EXPECT_LT(largest_difference(got.out, want.out), 2e-6);
  ASSERT_EQ(got.lse.sizes(), want.lse.sizes());
  EXPECT_LT(largest_difference(got.lse, want.lse), 1e-5);
  EXPECT_TRUE(got.out.equal(varlen_attention(in[0], in[1], in[2], {cu, {}, window}, 0.35)));
  const at::Tensor c = random_tensor(got.out.sizes().vec(), 4);
  const at::Tensor e = random_tensor(got.lse.sizes().vec(), 5);
  for (const AttentionResult& one : {got, want}) {
    ((one.out * c).sum() + (one.lse * e).sum()).backward();
  }
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_LT(largest_difference(in[i].grad(), want_in[i].grad()), 1e-5) << i;
  }
}

}  // namespace

TEST(VarlenAttention, AgreesWithAMaskedSoftmaxInValueAndGradient) {
  for (const auto& [heads, groups] : {std::pair{4, 4}, {6, 2}, {3, 1}}) {
    SCOPED_TRACE(heads);
    expect_agreement(inputs(40, heads, groups), {0, 5, 5, 6, 39, 40}, 0);
  }
}

TEST(VarlenAttention, AWindowAgreesWithAMaskedSoftmaxInValueAndGradient) {
  for (const int64_t window : {1, 4, 64, 100}) {
    SCOPED_TRACE(window);
    expect_agreement(inputs(336, 4, 2), {0, 5, 6, 206, 336}, window);
  }
}

TEST(VarlenAttention, TheLogSumExpAgreesWithFiniteDifferences) {
  for (const int64_t window : {0, 3}) {
    expect_gradients(
        [&](const Inputs& in) {
          return varlen_attention_lse(in[0], in[1], in[1], {{0, 3, 10}, {}, window}, 0.5).lse;
        },
        {random_tensor({10, 4, 6}, 1), random_tensor({10, 2, 6}, 2)});
  }
}

TEST(VarlenAttention, TheLogSumExpIsFp32UnlessAllIsFp64) {
  const at::NoGradGuard no_grad;
  const Inputs in = inputs(20, 4, 2);
  const AttentionResult want = reference(in, {0, 7, 20}, 0.35, 0);
  for (const auto& [type, tolerance] :
       {std::pair{at::kBFloat16, 5e-2}, {at::kHalf, 5e-3}, {at::kDouble, 1e-12}}) {
    const AttentionResult got =
        varlen_attention_lse(in[0].to(type), in[1].to(type), in[2].to(type), {{0, 7, 20}}, 0.35);
    EXPECT_EQ(got.lse.scalar_type(), type == at::kDouble ? at::kDouble : at::kFloat);
    EXPECT_LT(largest_difference(got.lse, want.lse), tolerance);
  }
}

// A softmax over all keys, merged from two halves of them.
TEST(VarlenAttention, TwoHalvesMergeByTheirLogSumExp) {
  const at::NoGradGuard no_grad;
  const Inputs in = inputs(1, 4, 2),
               other = {in[0], random_tensor({1, 2, 8}, 8), random_tensor({1, 2, 8}, 9)};
  const AttentionResult a = varlen_attention_lse(in[0], in[1], in[2], {{0, 1}}, 0.35);
  const AttentionResult b = varlen_attention_lse(in[0], other[1], other[2], {{0, 1}}, 0.35);
  const at::Tensor share = a.lse.sub(b.lse).sigmoid().t().unsqueeze(2);
  const at::Tensor merged = a.out * share + b.out * (1 - share);
  const at::Tensor k = at::cat({in[1], other[1]}), v = at::cat({in[2], other[2]});
  const at::Tensor q = in[0].expand({2, 4, 8});
  EXPECT_LT(largest_difference(merged[0], varlen_attention(q, k, v, {{0, 2}}, 0.35)[1]), 1e-6);
}

TEST(VarlenAttention, SegmentsNeverSeeEachOther) {
  const std::vector<int64_t> cu = {0, 90, 240, 600};
  for (const int64_t window : {0, 16}) {
    Inputs in = inputs(600, 4, 2);
    const AttentionResult before = varlen_attention_lse(in[0], in[1], in[2], {cu, {}, window}, 0.4);
    Inputs moved;
    for (const at::Tensor& x : in) {
      moved.push_back(x.clone());
      moved.back().narrow(0, 90, 150).mul_(-3).add_(1);
      moved.back().set_requires_grad(true);
    }
    const AttentionResult after =
        varlen_attention_lse(moved[0], moved[1], moved[2], {cu, {}, window}, 0.4);
    for (const auto& [begin, n] : {std::pair{0, 90}, {240, 360}}) {
      EXPECT_TRUE(after.out.narrow(0, begin, n).equal(before.out.narrow(0, begin, n)));
      EXPECT_TRUE(after.lse.narrow(1, begin, n).equal(before.lse.narrow(1, begin, n)));
    }
    EXPECT_GT(largest_difference(after.lse, before.lse), 0.1);
    (after.out.narrow(0, 240, 360).sum() + after.lse.narrow(1, 240, 360).sum()).backward();
    for (const at::Tensor& x : moved) {
      EXPECT_EQ(x.grad().narrow(0, 0, 240).abs().max().item<double>(), 0);
      EXPECT_GT(x.grad().narrow(0, 240, 360).abs().max().item<double>(), 0);
    }
  }
}

TEST(VarlenAttention, AWindowAsLongAsTheSegmentChangesNothing) {
  const at::NoGradGuard no_grad;
  const at::Tensor q = random_tensor({90, 2, 8}, 1), k = random_tensor({90, 1, 8}, 2);
  EXPECT_TRUE(varlen_attention(q, k, k, {{0, 80, 90}, {}, 80}, 0.4)
                  .equal(varlen_attention(q, k, k, {{0, 80, 90}}, 0.4)));
}

TEST(VarlenAttention, AWindowAgreesWithFiniteDifferences) {
  expect_gradients(
      [](const std::vector<at::Tensor>& in) {
        return varlen_attention(in[0], in[1], in[2], {{0, 3, 10}, {}, 3}, 0.5);
      },
      {random_tensor({10, 4, 6}, 1), random_tensor({10, 2, 6}, 2), random_tensor({10, 2, 6}, 3)});
}

TEST(VarlenAttention, AgreesWithFiniteDifferences) {
  expect_gradients(
      [](const std::vector<at::Tensor>& in) {
        return varlen_attention(in[0], in[1], in[2], {{0, 3, 10}}, 0.5);
      },
      {random_tensor({10, 4, 6}, 1), random_tensor({10, 2, 6}, 2), random_tensor({10, 2, 6}, 3)});
}

TEST(VarlenAttention, ALongSegmentHasTheSameBitsAloneAndBesideShortOnes) {
  const at::NoGradGuard no_grad;
  const at::Tensor q = random_tensor({700, 2, 8}, 1), k = random_tensor({700, 1, 8}, 2);
  const at::Tensor both = varlen_attention(q, k, k, {{0, 600, 650, 700}}, 0.4);
  const auto part = [&](const at::Tensor& x, int64_t begin, int64_t n) {
    return x.narrow(0, begin, n);
  };
  const at::Tensor alone =
      varlen_attention(part(q, 0, 600), part(k, 0, 600), part(k, 0, 600), {{0, 600}}, 0.4);
  EXPECT_TRUE(part(both, 0, 600).equal(alone));
  const at::Tensor brief =
      varlen_attention(part(q, 650, 50), part(k, 650, 50), part(k, 650, 50), {{0, 50}}, 0.4);
  EXPECT_TRUE(part(both, 650, 50).equal(brief));
}

TEST(VarlenAttention, RefusesBoundariesThatDoNotCoverThePack) {
  const at::Tensor q = random_tensor({4, 2, 8}, 1);
  EXPECT_EQ(error_of([&] {
              varlen_attention(q, q, q, {{0, 3}}, 1.0);
            }),
            "varlen_attention: cu_seqlens[1] is 3, wanted 4, the number of rows");
  EXPECT_EQ(
      error_of([&] {
        varlen_attention(q, q, q, {{0, 3, 2, 4}}, 1.0);
      }),
      "varlen_attention: cu_seqlens[2] is 2, wanted a number from 3, the boundary before it, to "
      "4, the number of rows");
  EXPECT_EQ(
      error_of([&] {
        varlen_attention(q, random_tensor({4, 3, 8}, 2), q, {{0, 4}}, 1.0);
      }),
      "varlen_attention: q is [4, 2, 8], k [4, 3, 8], v [4, 2, 8]; wanted q [T, H, K] and k, v "
      "[T, J, K] with J dividing H and K above 0");
  EXPECT_EQ(
      varlen_attention(q.narrow(0, 0, 0), q.narrow(0, 0, 0), q.narrow(0, 0, 0), {{0}}, 1.0).size(0),
      0);
}

}  // namespace xrun::attention_test
