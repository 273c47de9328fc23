// The decoder's own ops: gradients by finite differences, and values against ATen's words for them.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/triu.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/model/attention.h"
#include "core/model/rms_norm.h"
#include "core/model/rope.h"
#include "core/model/swiglu.h"
#include "tests/gradient_check.h"

namespace xrun {

namespace {

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

RopeAngles some_angles(int64_t T, int64_t head_dim) {
  return rope_angles({}, head_dim, at::ones({T}, at::kLong).cumsum(0), {0, T}, at::kFloat);
}

// Segment by segment with a mask, in fp64.
at::Tensor attention_reference(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const std::vector<int64_t>& cu, double scale, int64_t window = 0) {
  const int64_t group = q.size(1) / k.size(1);
  std::vector<at::Tensor> parts;
  for (size_t s = 0; s + 1 < cu.size(); ++s) {
    const int64_t n = cu[s + 1] - cu[s];
    const auto take = [&](const at::Tensor& x, int64_t repeat) {
      return x.narrow(0, cu[s], n).to(at::kDouble).permute({1, 0, 2}).repeat_interleave(repeat, 0);
    };
    at::Tensor scores = take(q, 1).matmul(take(k, group).transpose(1, 2)) * scale;
    const at::Tensor all = at::ones({n, n}, at::kDouble);
    at::Tensor hidden = at::triu(all, 1) * -1e30;
    if (window > 0) hidden = hidden + all.tril(-window) * -1e30;
    parts.push_back(at::softmax(scores + hidden, -1).matmul(take(v, group)).permute({1, 0, 2}));
  }
  return at::cat(parts, 0);
}

}  // namespace

TEST(RmsNorm, AgreesWithFiniteDifferences) {
  for (const int64_t rows : {1, 3, 130}) {  // below, and beyond, one block of the weight's sum
    expect_gradients([](const std::vector<at::Tensor>& in) { return rms_norm(in[0], in[1], 1e-5); },
                     {random_tensor({rows, 2, 19}, 1, 2.0), random_tensor({19}, 2)});
  }
}

TEST(RmsNorm, TakesAnyTypeAndRefusesAWeightOfAnotherWidth) {
  const at::Tensor x = random_tensor({4, 10}, 3, 2.0), w = random_tensor({10}, 4);
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const at::Tensor y = rms_norm(x.to(type), w.to(type), 1e-5);
    EXPECT_EQ(y.scalar_type(), type);
    EXPECT_LT(largest_difference(y, rms_norm(x, w, 1e-5)), 0.03);
  }
  EXPECT_EQ(rms_norm(x.narrow(0, 0, 0), w, 1e-5).sizes(), at::IntArrayRef({0, 10}));
  EXPECT_THROW(rms_norm(x, w.narrow(0, 0, 9), 1e-5), Error);
}

TEST(SwiGlu, AgreesWithFiniteDifferencesAndWithAten) {
  const at::Tensor gate = random_tensor({3, 17}, 1, 4.0), up = random_tensor({3, 17}, 2, 2.0);
  expect_gradients([](const std::vector<at::Tensor>& in) { return swiglu(in[0], in[1]); },
                   {gate, up});
  EXPECT_LT(largest_difference(swiglu(gate, up), at::silu(gate).mul(up)), 1e-6);
  EXPECT_THROW(swiglu(gate, up.narrow(0, 0, 2)), Error);
}

TEST(Rope, AgreesWithFiniteDifferences) {
  const RopeAngles angles = some_angles(5, 6);
  expect_gradients([&](const std::vector<at::Tensor>& in) { return rope(in[0], angles); },
                   {random_tensor({5, 3, 6}, 1)});
}

TEST(Rope, ComputesAnglesInFp32WhateverTheType) {
  // at position 4099 a bf16 angle would be off by several radians
  const RopeAngles angles =
      rope_angles({}, 4, at::tensor({int64_t{4099}}, at::kLong), {0, 1}, at::kBFloat16);
  EXPECT_NEAR(angles.cos[0][0].item<float>(), std::cos(4099.0), 0.005);
  EXPECT_NEAR(angles.sin[0][1].item<float>(), std::sin(40.99), 0.005);
}

TEST(VarlenAttention, AgreesWithAMaskedSoftmaxInValueAndGradient) {
  const std::vector<int64_t> cu = {0, 5, 5, 6, 39, 40};
  for (const auto& [heads, groups] : {std::pair{4, 4}, {6, 2}, {3, 1}}) {
    std::vector<at::Tensor> in = {random_tensor({40, heads, 8}, 1, 2.0),
                                  random_tensor({40, groups, 8}, 2, 2.0),
                                  random_tensor({40, groups, 8}, 3)};
    std::vector<at::Tensor> want_in;
    for (at::Tensor& x : in) {
      want_in.push_back(x.clone().set_requires_grad(true));
      x.set_requires_grad(true);
    }
    const at::Tensor c = random_tensor({40, heads, 8}, 4);
    const at::Tensor y = varlen_attention(in[0], in[1], in[2], cu, 0.35);
    const at::Tensor want = attention_reference(want_in[0], want_in[1], want_in[2], cu, 0.35);
    EXPECT_LT(largest_difference(y, want), 2e-6);
    y.backward(c);
    want.backward(c.to(at::kDouble));
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_LT(largest_difference(in[i].grad(), want_in[i].grad()), 1e-5) << heads << " " << i;
    }
  }
}

TEST(VarlenAttention, AWindowAgreesWithAMaskedSoftmaxInValueAndGradient) {
  const std::vector<int64_t> cu = {0, 5, 6, 206, 336};
  for (const int64_t window : {1, 4, 64, 100}) {
    std::vector<at::Tensor> in = {random_tensor({336, 4, 8}, 1, 2.0),
                                  random_tensor({336, 2, 8}, 2, 2.0),
                                  random_tensor({336, 2, 8}, 3)};
    std::vector<at::Tensor> want_in;
    for (at::Tensor& x : in) {
      want_in.push_back(x.clone().set_requires_grad(true));
      x.set_requires_grad(true);
    }
    const at::Tensor c = random_tensor({336, 4, 8}, 4);
    const at::Tensor y = varlen_attention(in[0], in[1], in[2], cu, 0.35, window);
    const at::Tensor want =
        attention_reference(want_in[0], want_in[1], want_in[2], cu, 0.35, window);
    EXPECT_LT(largest_difference(y, want), 2e-6) << window;
    y.backward(c);
    want.backward(c.to(at::kDouble));
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_LT(largest_difference(in[i].grad(), want_in[i].grad()), 1e-5) << window << " " << i;
    }
  }
}

TEST(VarlenAttention, AWindowAsLongAsTheSegmentIsNoWindow) {
  const at::NoGradGuard no_grad;
  const at::Tensor q = random_tensor({90, 2, 8}, 1), k = random_tensor({90, 1, 8}, 2);
  EXPECT_TRUE(varlen_attention(q, k, k, {0, 80, 90}, 0.4, 80)
                  .equal(varlen_attention(q, k, k, {0, 80, 90}, 0.4)));
}

TEST(VarlenAttention, TheLogSumExpIsThatOfTheScores) {
  const at::NoGradGuard no_grad;
  const at::Tensor q = random_tensor({9, 4, 8}, 1, 2.0), k = random_tensor({9, 2, 8}, 2, 2.0);
  const at::Tensor lse = varlen_attention_lse(q, k, k, {0, 3, 9}, 0.4, 2).lse;
  ASSERT_EQ(lse.sizes(), at::IntArrayRef({4, 9}));
  for (int64_t h = 0; h < 4; ++h) {
    for (const int64_t t : {0, 2, 3, 8}) {
      double sum = 0;
      for (int64_t u = t == 0 || t == 3 ? t : t - 1; u <= t; ++u) {
        sum += std::exp(0.4 * q[t][h].dot(k[u][h / 2]).item<double>());
      }
      EXPECT_NEAR(lse[h][t].item<double>(), std::log(sum), 1e-5) << h << " " << t;
    }
  }
}

TEST(VarlenAttention, AWindowAgreesWithFiniteDifferences) {
  expect_gradients(
      [](const std::vector<at::Tensor>& in) {
        return varlen_attention(in[0], in[1], in[2], {0, 3, 10}, 0.5, 3);
      },
      {random_tensor({10, 4, 6}, 1), random_tensor({10, 2, 6}, 2), random_tensor({10, 2, 6}, 3)});
}

TEST(VarlenAttention, AgreesWithFiniteDifferences) {
  expect_gradients(
      [](const std::vector<at::Tensor>& in) {
        return varlen_attention(in[0], in[1], in[2], {0, 3, 10}, 0.5);
      },
      {random_tensor({10, 4, 6}, 1), random_tensor({10, 2, 6}, 2), random_tensor({10, 2, 6}, 3)});
}

TEST(VarlenAttention, LongSegmentsBesideShortOnesGiveTheSameAsAlone) {
  const at::NoGradGuard no_grad;
  const at::Tensor q = random_tensor({700, 2, 8}, 1), k = random_tensor({700, 1, 8}, 2);
  const at::Tensor both = varlen_attention(q, k, k, {0, 600, 650, 700}, 0.4);
  const auto part = [&](const at::Tensor& x, int64_t begin, int64_t n) {
    return x.narrow(0, begin, n);
  };
  const at::Tensor alone =
      varlen_attention(part(q, 0, 600), part(k, 0, 600), part(k, 0, 600), {0, 600}, 0.4);
  EXPECT_TRUE(part(both, 0, 600).equal(alone));
  const at::Tensor brief =
      varlen_attention(part(q, 650, 50), part(k, 650, 50), part(k, 650, 50), {0, 50}, 0.4);
  EXPECT_TRUE(part(both, 650, 50).equal(brief));
}

TEST(VarlenAttention, RefusesBoundariesThatDoNotCoverThePack) {
  const at::Tensor q = random_tensor({4, 2, 8}, 1);
  EXPECT_THROW(varlen_attention(q, q, q, {0, 3}, 1.0), Error);
  EXPECT_THROW(varlen_attention(q, q, q, {0, 3, 2, 4}, 1.0), Error);
  EXPECT_THROW(varlen_attention(q, random_tensor({4, 3, 8}, 2), q, {0, 4}, 1.0), Error);
  EXPECT_EQ(
      varlen_attention(q.narrow(0, 0, 0), q.narrow(0, 0, 0), q.narrow(0, 0, 0), {0}, 1.0).size(0),
      0);
}

}  // namespace xrun
