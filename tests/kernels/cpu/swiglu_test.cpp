// The gated SiLU against fp64.

#include "tests/kernels/cpu/kernel_case.h"

namespace xrun::swiglu_test {

class SwiGluTest : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, SwiGluTest, all_instruction_sets(), instruction_set_name);

TEST_P(SwiGluTest, ForwardAndBackwardAgreeWithDoublePrecision) {
  for (const int64_t n : {1, 15, 16, 17, 1000}) {
    auto gate = random_floats(n, 1, 15.0f);
    gate[0] = -120.0f;  // the logistic underflows to zero, not to NaN
    const auto up = random_floats(n, 2, 2.0f), grad = random_floats(n, 3);
    std::vector<float> y(n), dgate(n), dup(n);
    kernels_->run(kernels::SwiGlu<float>{gate.data(), up.data(), y.data(), n});
    kernels_->run(kernels::SwiGluBackward<float>{grad.data(), gate.data(), up.data(), dgate.data(),
                                                 dup.data(), n});
    for (int64_t i = 0; i < n; ++i) {
      const double s = 1 / (1 + std::exp(-double{gate[i]}));
      ASSERT_NEAR(y[i], gate[i] * s * up[i], 5e-6);
      ASSERT_NEAR(dup[i], grad[i] * gate[i] * s, 3e-6);
      ASSERT_NEAR(dgate[i], grad[i] * up[i] * s * (1 + gate[i] * (1 - s)), 3e-6);
    }
  }
}

TEST_P(SwiGluTest, InBf16TheActivationIsRoundedBeforeTheProduct) {
  const int64_t n = 29;
  const auto gate = to_bf16(random_floats(n, 4, 5.0f)), up = to_bf16(random_floats(n, 5, 2.0f));
  std::vector<kernels::Bf16> y(n);
  kernels_->run(kernels::SwiGlu<kernels::Bf16>{gate.data(), up.data(), y.data(), n});
  for (int64_t i = 0; i < n; ++i) {
    const double g = from_bf16(gate[i]);
    const float silu = from_bf16(to_bf16(static_cast<float>(g / (1 + std::exp(-g)))));
    EXPECT_NEAR(from_bf16(y[i]), silu * from_bf16(up[i]), std::abs(silu) * 0.016 + 1e-6);
  }
}

}  // namespace xrun::swiglu_test
