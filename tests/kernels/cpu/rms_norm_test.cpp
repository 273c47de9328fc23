// RMSNorm forward and backward against fp64, in fp32 and bf16.

#include "tests/kernels/cpu/kernel_case.h"

namespace xrun::rms_norm_test {

class RmsNormTest : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, RmsNormTest, all_instruction_sets(), instruction_set_name);

namespace {

constexpr double kEps = 1e-5;

double reference_rstd(const float* x, int64_t width) {
  double squares = 0;
  for (int64_t i = 0; i < width; ++i) squares += double{x[i]} * x[i];
  return 1 / std::sqrt(squares / static_cast<double>(width) + kEps);
}

}  // namespace

TEST_P(RmsNormTest, ForwardAgreesWithDoublePrecision) {
  for (const int64_t width : {1, 5, 16, 33, 64, 576, 1001}) {
    const std::vector<float> x = random_floats(3 * width, 1, 3.0f);
    const std::vector<float> weight = random_floats(width, 2, 2.0f);
    std::vector<float> y(x.size()), rstd(3);
    kernels_->run(
        kernels::RmsNorm<float>{x.data(), weight.data(), y.data(), rstd.data(), 3, width, 1e-5f});
    for (int64_t r = 0; r < 3; ++r) {
      const double want = reference_rstd(x.data() + r * width, width);
      EXPECT_NEAR(rstd[r] / want, 1, 1e-6);
      for (int64_t i = r * width; i < (r + 1) * width; ++i) {
        ASSERT_NEAR(y[i], x[i] * want * weight[i - r * width], 2e-6) << width;
      }
    }
  }
}

TEST_P(RmsNormTest, InBf16TheNormalisedValueIsRoundedBeforeTheWeight) {
  const int64_t width = 37;
  const auto x = to_bf16(random_floats(width, 3, 3.0f));
  const auto weight = from_bf16(to_bf16(random_floats(width, 4, 2.0f)));
  std::vector<kernels::Bf16> y(width);
  float rstd;
  kernels_->run(
      kernels::RmsNorm<kernels::Bf16>{x.data(), weight.data(), y.data(), &rstd, 1, width, 1e-5f});
  for (int64_t i = 0; i < width; ++i) {
    const float normed = from_bf16(to_bf16(from_bf16(x[i]) * rstd));
    EXPECT_EQ(y[i], to_bf16(normed * weight[i])) << i;
  }
}

TEST_P(RmsNormTest, BackwardAgreesWithDoublePrecisionAndAddsToTheWeightsGradient) {
  for (const int64_t width : {1, 7, 16, 100, 576}) {
    const int64_t rows = 4;
    const auto x = random_floats(rows * width, 5, 3.0f), grad = random_floats(rows * width, 6);
    const auto weight = random_floats(width, 7, 2.0f);
    std::vector<float> dx(x.size()), dweight(width, 0.5f), rstd(rows), y(x.size());
    kernels_->run(kernels::RmsNorm<float>{x.data(), weight.data(), y.data(), rstd.data(), rows,
                                          width, 1e-5f});
    kernels_->run(kernels::RmsNormBackward<float>{grad.data(), x.data(), weight.data(), rstd.data(),
                                                  dx.data(), dweight.data(), rows, width});
    std::vector<double> want_dweight(width, 0.5);
    for (int64_t r = 0; r < rows; ++r) {
      const double rs = reference_rstd(x.data() + r * width, width);
      double dot = 0;
      for (int64_t i = 0; i < width; ++i) {
        dot += double{grad[r * width + i]} * weight[i] * x[r * width + i] * rs;
        want_dweight[i] += grad[r * width + i] * x[r * width + i] * rs;
      }
      for (int64_t i = 0; i < width; ++i) {
        const int64_t at = r * width + i;
        const double want = rs * (grad[at] * weight[i] - x[at] * rs * dot / width);
        ASSERT_NEAR(dx[at], want, 3e-6) << width;
      }
    }
    for (int64_t i = 0; i < width; ++i) ASSERT_NEAR(dweight[i], want_dweight[i], 3e-6);
  }
}

TEST_P(RmsNormTest, BackwardInBf16StaysWithinItsRounding) {
  const int64_t width = 48;
  const auto x = to_bf16(random_floats(width, 8, 3.0f)), grad = to_bf16(random_floats(width, 9));
  const auto wide_x = from_bf16(x), wide_grad = from_bf16(grad);
  const auto weight = random_floats(width, 10, 2.0f);
  const float rstd = static_cast<float>(reference_rstd(wide_x.data(), width));
  std::vector<kernels::Bf16> dx(width);
  std::vector<float> wide_dx(width), dweight(width), wide_dweight(width);
  kernels_->run(kernels::RmsNormBackward<kernels::Bf16>{grad.data(), x.data(), weight.data(), &rstd,
                                                        dx.data(), dweight.data(), 1, width});
  kernels_->run(kernels::RmsNormBackward<float>{wide_grad.data(), wide_x.data(), weight.data(),
                                                &rstd, wide_dx.data(), wide_dweight.data(), 1,
                                                width});
  EXPECT_EQ(dweight, wide_dweight);
  for (int64_t i = 0; i < width; ++i) EXPECT_EQ(dx[i], to_bf16(wide_dx[i]));
}

}  // namespace xrun::rms_norm_test
