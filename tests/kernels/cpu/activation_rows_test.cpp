// Activations against fp64, and the same bits at any position of an element.

#include "tests/kernels/cpu/kernel_case.h"

namespace xrun::activation_rows_test {

using kernels::ActivationCurve;

constexpr ActivationCurve kCurves[] = {ActivationCurve::kSilu, ActivationCurve::kGelu,
                                       ActivationCurve::kGeluTanh};

double exact(ActivationCurve curve, double x) {
  if (curve == ActivationCurve::kSilu) return x / (1 + std::exp(-x));
  if (curve == ActivationCurve::kGelu) return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

class ActivationRowsTest : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, ActivationRowsTest, all_instruction_sets(), instruction_set_name);

TEST_P(ActivationRowsTest, AgreeWithDoublePrecision) {
  for (const ActivationCurve curve : kCurves) {
    auto x = random_floats(1003, 1, 6.0f);
    x[0] = -90.0f, x[1] = 90.0f, x[2] = 0.0f;
    std::vector<float> y(x.size());
    kernels_->run(kernels::ActivationRows<float>{x.data(), y.data(), 1003, curve});
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(y[i], exact(curve, x[i]), 4e-7 + 4e-7 * std::abs(x[i])) << x[i];
    }
  }
}

TEST_P(ActivationRowsTest, AnElementHasTheSameBitsInAnyPlace) {
  for (const ActivationCurve curve : kCurves) {
    const auto x = random_floats(64, 2, 5.0f);
    std::vector<float> all(x.size()), one(1);
    kernels_->run(kernels::ActivationRows<float>{x.data(), all.data(), 64, curve});
    for (size_t i = 0; i < x.size(); ++i) {
      kernels_->run(kernels::ActivationRows<float>{x.data() + i, one.data(), 1, curve});
      ASSERT_EQ(one[0], all[i]) << x[i];
    }
  }
}

TEST_P(ActivationRowsTest, Bf16RoundsOnce) {
  const auto x = to_bf16(random_floats(45, 3, 5.0f));
  for (const ActivationCurve curve : kCurves) {
    std::vector<kernels::Bf16> y(x.size());
    kernels_->run(kernels::ActivationRows<kernels::Bf16>{x.data(), y.data(), 45, curve});
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = exact(curve, from_bf16(x[i]));
      ASSERT_NEAR(from_bf16(y[i]), want, std::abs(want) * 0x1.04p-8 + 2e-6);
    }
  }
}

}  // namespace xrun::activation_rows_test
