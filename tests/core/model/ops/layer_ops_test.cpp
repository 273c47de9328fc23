// The operators of a decoder: gradients by finite differences, values against ATen.

#include <ATen/ops/ones.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/model/ops/rms_norm.h"
#include "core/model/ops/rope.h"
#include "core/model/ops/swiglu.h"
#include "tests/error_of.h"
#include "tests/gradient_check.h"
#include "tests/tensor_difference.h"

namespace xrun::layer_ops_test {

namespace {

RopeAngles some_angles(int64_t T, int64_t head_dim) {
  return rope_angles({}, head_dim, {at::ones({T}, at::kLong).cumsum(0), {0, T}}, at::kFloat);
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
  EXPECT_EQ(error_of([&] { rms_norm(x, w.narrow(0, 0, 9), 1e-5); }),
            "rms_norm: weight is [9], wanted [10]");
}

TEST(SwiGlu, AgreesWithFiniteDifferencesAndWithAten) {
  const at::Tensor gate = random_tensor({3, 17}, 1, 4.0), up = random_tensor({3, 17}, 2, 2.0);
  expect_gradients([](const std::vector<at::Tensor>& in) { return swiglu(in[0], in[1]); },
                   {gate, up});
  EXPECT_LT(largest_difference(swiglu(gate, up), at::silu(gate).mul(up)), 1e-6);
  EXPECT_EQ(error_of([&] { swiglu(gate, up.narrow(0, 0, 2)); }),
            "swiglu: up is [2, 17], wanted [3, 17]");
}

TEST(Rope, AgreesWithFiniteDifferences) {
  const RopeAngles angles = some_angles(5, 6);
  expect_gradients([&](const std::vector<at::Tensor>& in) { return rope(in[0], angles); },
                   {random_tensor({5, 3, 6}, 1)});
}

TEST(Rope, ComputesAnglesInFp32WhateverTheType) {
  // At position 4099 a bf16 angle would be off by several radians.
  const RopeAngles angles =
      rope_angles({}, 4, {at::tensor({int64_t{4099}}, at::kLong), {0, 1}}, at::kBFloat16);
  EXPECT_NEAR(angles.cos[0][0].item<float>(), std::cos(4099.0), 0.005);
  EXPECT_NEAR(angles.sin[0][1].item<float>(), std::sin(40.99), 0.005);
}

}  // namespace xrun::layer_ops_test
