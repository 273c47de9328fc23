// The compositions of ATen that stand for our kernels on other devices, against those kernels.

#include "kernels/cuda/layers.h"

#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "core/model/ops/op_call.h"
#include "tests/tensor_difference.h"

namespace xrun::layers_test {
namespace {

template <class... Args>
auto cpu(const char* name, auto* form, const Args&... args) {
  return find_op<std::remove_pointer_t<decltype(form)>>(name).call(args...);
}

class Layers : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { at::manual_seed(7); }
  at::Tensor random(at::IntArrayRef sizes) const { return at::randn(sizes).to(GetParam()); }
  // One unit in the last place of the type may round the other way.
  double tolerance() const { return GetParam() == at::kFloat ? 2e-6 : 8e-3; }
};

TEST_P(Layers, RmsNormIsThatOfTheKernels) {
  for (const auto& sizes : {std::vector<int64_t>{13, 40}, {5, 3, 16}, {1, 7}}) {
    const at::Tensor x = random(sizes), w = random({sizes.back()}), g = random(sizes);
    const auto [y, rstd] = kernels::rms_norm_forward(x, w, 1e-5);
    const auto [y0, rstd0] = cpu("xrun::rms_norm_forward", kernels::rms_norm_forward, x, w, 1e-5);
    EXPECT_LT(relative_difference(y, y0), tolerance());
    EXPECT_LT(relative_difference(rstd, rstd0), 2e-6);
    const auto [dx, dw] = kernels::rms_norm_backward(g, x, w, rstd0);
    const auto [dx0, dw0] =
        cpu("xrun::rms_norm_backward", kernels::rms_norm_backward, g, x, w, rstd0);
    EXPECT_LT(relative_difference(dx, dx0), tolerance());
    EXPECT_LT(relative_difference(dw, dw0), 2e-6);
  }
}

TEST_P(Layers, RotationIsThatOfTheKernels) {
  const at::Tensor x = random({11, 3, 16}), angle = at::randn({11, 8});
  for (const bool inverse : {false, true}) {
    const at::Tensor got = kernels::rope_rotate(x, angle.cos(), angle.sin(), inverse);
    EXPECT_LT(relative_difference(got, cpu("xrun::rope_rotate", kernels::rope_rotate, x,
                                           angle.cos(), angle.sin(), inverse)),
              tolerance());
  }
}

TEST_P(Layers, GatedSiluIsThatOfTheKernels) {
  const at::Tensor gate = random({9, 37}).mul(4), up = random({9, 37}), g = random({9, 37});
  EXPECT_LT(relative_difference(kernels::swiglu_forward(gate, up),
                                cpu("xrun::swiglu_forward", kernels::swiglu_forward, gate, up)),
            tolerance());
  const auto [dgate, dup] = kernels::swiglu_backward(g, gate, up);
  const auto [dgate0, dup0] = cpu("xrun::swiglu_backward", kernels::swiglu_backward, g, gate, up);
  EXPECT_LT(relative_difference(dgate, dgate0), tolerance());
  EXPECT_LT(relative_difference(dup, dup0), tolerance());
}

TEST_P(Layers, WidenedProductIsThatOfTheKernels) {
  const at::Tensor x = random({6, 24}), w = random({10, 24}), b = random({10}), g = random({6, 10});
  for (const auto& bias : {std::optional<at::Tensor>(b), std::optional<at::Tensor>()}) {
    EXPECT_LT(relative_difference(kernels::linear_forward(x, w, bias),
                                  cpu("xrun::linear_forward", kernels::linear_forward, x, w, bias)),
              tolerance());
  }
  const auto [dx, dw, db] = kernels::linear_backward(g, x, w, true, true, true);
  const auto [dx0, dw0, db0] =
      cpu("xrun::linear_backward", kernels::linear_backward, g, x, w, true, true, true);
  EXPECT_LT(relative_difference(dx, dx0), tolerance());
  EXPECT_LT(relative_difference(dw, dw0), tolerance());
  EXPECT_LT(relative_difference(db, db0), tolerance());
  EXPECT_FALSE(std::get<1>(kernels::linear_backward(g, x, w, true, false, false)).defined());
}

TEST_P(Layers, NothingIsLegal) {
  const at::Tensor none = random({0, 16}), w = random({16});
  const auto [y, rstd] = kernels::rms_norm_forward(none, w, 1e-5);
  EXPECT_EQ(y.size(0), 0);
  EXPECT_EQ(std::get<1>(kernels::rms_norm_backward(none, none, w, rstd)).sizes(), w.sizes());
  EXPECT_EQ(kernels::swiglu_forward(none, none).size(0), 0);
  EXPECT_EQ(
      kernels::rope_rotate(random({0, 2, 8}), at::randn({0, 4}), at::randn({0, 4}), false).size(0),
      0);
}

INSTANTIATE_TEST_SUITE_P(Types, Layers, testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return c10::toString(info.param); });

TEST(LayersCheck, ShapesThatOnlyBroadcastAreRefused) {
  const at::Tensor x = at::randn({4, 8});
  EXPECT_THROW(kernels::rms_norm_forward(x, at::randn({1}), 1e-5), c10::Error);
  EXPECT_THROW(kernels::rms_norm_backward(x, x, at::randn({8}), at::randn({1})), c10::Error);
  EXPECT_THROW(kernels::swiglu_forward(x, at::randn({8})), c10::Error);
  EXPECT_THROW(
      kernels::rope_rotate(at::randn({4, 2, 8}), at::randn({1, 4}), at::randn({4, 4}), false),
      c10::Error);
}

}  // namespace
}  // namespace xrun::layers_test
