// The composed forms of our operators, which serve devices without kernels of our own, against the
// CPU's kernels.

#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/model/ops/op.h"
#include "tests/error_of.h"
#include "tests/pretend/pretend_device.h"
#include "tests/tensor_difference.h"

namespace xrun::composed_ops_test {
namespace {

using Tensors = std::vector<at::Tensor>;
using OptionalTensor = std::optional<at::Tensor>;

template <class T>
T moved_to(c10::Device device, const T& argument) {
  if constexpr (std::is_same_v<T, at::Tensor>) return argument.to(device);
  if constexpr (std::is_same_v<T, OptionalTensor>) {
    if (argument) return argument->to(device);
  }
  return argument;
}

Tensors listed(const at::Tensor& one) { return {one}; }
template <class... T>
Tensors listed(const std::tuple<T...>& all) {
  return std::apply([](const auto&... one) { return Tensors{one...}; }, all);
}

// Calls an operator on the pretended device, which only the composed form serves; results come back
// to the CPU.
template <class Signature, class... Arguments>
Tensors composed(const char* name, const Arguments&... arguments) {
  const c10::Device device = pretend_device();
  Tensors results = listed(find_op<Signature>(name).call(moved_to(device, arguments)...));
  for (at::Tensor& one : results) {
    if (one.defined()) one = one.cpu();
  }
  return results;
}

template <class Signature, class... Arguments>
Tensors kernel(const char* name, const Arguments&... arguments) {
  return listed(find_op<Signature>(name).call(arguments...));
}

using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using NormForward = Two(const at::Tensor&, const at::Tensor&, double);
using NormBackward = Two(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                         const at::Tensor&);
using Rotate = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, bool);
using SiluForward = at::Tensor(const at::Tensor&, const at::Tensor&);
using SiluBackward = Two(const at::Tensor&, const at::Tensor&, const at::Tensor&);
using LinearForward = at::Tensor(const at::Tensor&, const at::Tensor&, const OptionalTensor&);
using LinearBackward = Three(const at::Tensor&, const OptionalTensor&, const OptionalTensor&, bool,
                             bool, bool);

class ComposedOps : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { at::manual_seed(7); }
  at::Tensor random(at::IntArrayRef sizes) const { return at::randn(sizes).to(GetParam()); }
  // One unit in the last place of the type may round the other way.
  double tolerance() const { return GetParam() == at::kFloat ? 2e-6 : 8e-3; }

  template <class Signature, class... Arguments>
  void expect_same(const char* name, const Arguments&... arguments) const {
    const Tensors got = composed<Signature>(name, arguments...);
    const Tensors wanted = kernel<Signature>(name, arguments...);
    for (size_t i = 0; i < got.size(); ++i) {
      const bool sum = wanted[i].scalar_type() == at::kFloat;
      EXPECT_LT(relative_difference(got[i], wanted[i]), sum ? 2e-6 : tolerance())
          << name << ", result " << i;
    }
  }
};

TEST_P(ComposedOps, RmsNormMatchesTheKernels) {
  for (const auto& sizes : {std::vector<int64_t>{13, 40}, {5, 3, 16}, {1, 7}}) {
    const at::Tensor x = random(sizes), w = random({sizes.back()}), g = random(sizes);
    expect_same<NormForward>("xrun::rms_norm_forward", x, w, 1e-5);
    const at::Tensor rstd = kernel<NormForward>("xrun::rms_norm_forward", x, w, 1e-5)[1];
    expect_same<NormBackward>("xrun::rms_norm_backward", g, x, w, rstd);
  }
}

TEST_P(ComposedOps, RotationMatchesTheKernels) {
  const at::Tensor x = random({11, 3, 16}), angle = at::randn({11, 8});
  for (const bool inverse : {false, true}) {
    expect_same<Rotate>("xrun::rope_rotate", x, angle.cos(), angle.sin(), inverse);
  }
}

TEST_P(ComposedOps, GatedSiluMatchesTheKernels) {
  const at::Tensor gate = random({9, 37}).mul(4), up = random({9, 37}), g = random({9, 37});
  expect_same<SiluForward>("xrun::swiglu_forward", gate, up);
  expect_same<SiluBackward>("xrun::swiglu_backward", g, gate, up);
}

TEST_P(ComposedOps, UpcastProductMatchesTheKernels) {
  const at::Tensor x = random({6, 24}), w = random({10, 24}), b = random({10}), g = random({6, 10});
  for (const auto& bias : {OptionalTensor(b), OptionalTensor()}) {
    expect_same<LinearForward>("xrun::linear_forward", x, w, bias);
  }
  expect_same<LinearBackward>("xrun::linear_backward", g, x, w, true, true, true);
  EXPECT_FALSE(
      composed<LinearBackward>("xrun::linear_backward", g, x, w, true, false, false)[1].defined());
}

TEST_P(ComposedOps, EmptyInputsAreLegal) {
  const at::Tensor none = random({0, 16}), w = random({16}), angles = at::randn({0, 4});
  const Tensors norm = composed<NormForward>("xrun::rms_norm_forward", none, w, 1e-5);
  EXPECT_EQ(norm[0].size(0), 0);
  EXPECT_EQ(composed<NormBackward>("xrun::rms_norm_backward", none, none, w, norm[1])[1].sizes(),
            w.sizes());
  EXPECT_EQ(composed<SiluForward>("xrun::swiglu_forward", none, none)[0].size(0), 0);
  const at::Tensor heads = random({0, 2, 8});
  EXPECT_EQ(composed<Rotate>("xrun::rope_rotate", heads, angles, angles, false)[0].size(0), 0);
}

INSTANTIATE_TEST_SUITE_P(Types, ComposedOps, testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return c10::toString(info.param); });

TEST(ComposedOpsCheck, ShapesThatOnlyBroadcastAreRefused) {
  const at::Tensor x = at::randn({4, 8}), one = at::randn({1}), w = at::randn({8});
  EXPECT_EQ(
      message_of<Error>([&] { composed<NormForward>("xrun::rms_norm_forward", x, one, 1e-5); }),
      "rms_norm: weight is [1], wanted [8]");
  EXPECT_EQ(
      message_of<Error>([&] { composed<NormBackward>("xrun::rms_norm_backward", x, x, w, one); }),
      "rms_norm: rstd is [1], wanted [4]");
  EXPECT_EQ(message_of<Error>([&] { composed<SiluForward>("xrun::swiglu_forward", x, w); }),
            "swiglu: up is [8], wanted [4, 8]");
  EXPECT_EQ(message_of<Error>([&] {
              composed<Rotate>("xrun::rope_rotate", at::randn({4, 2, 8}), at::randn({1, 4}),
                               at::randn({4, 4}), false);
            }),
            "rope: cos is [1, 4], wanted [4, 4]");
}

}  // namespace
}  // namespace xrun::composed_ops_test
