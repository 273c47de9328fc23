// Exponentials of a row over its largest, at odd widths and temperatures.

#include "tests/kernels/kernel_case.h"

namespace xrun::exp_row_test {

class ExpRowTest : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, ExpRowTest, all_instruction_sets(), instruction_set_name);

TEST_P(ExpRowTest, AgreesWithDoublePrecision) {
  for (const int64_t width : {1, 3, 16, 97, 2049, 50304}) {
    for (const float temperature : {1.0f, 0.3f, 7.0f}) {
      const auto logits = random_floats(width, 4, 12.0f);
      auto x = logits;
      std::vector<float> e(x.size());
      float most = 0;
      double sum = 0;
      kernels_->run(kernels::ExpRow{x.data(), e.data(), &most, &sum, width, temperature});
      double want = 0;
      float largest = x[0];
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(x[i], logits[i] / temperature);
        largest = std::max(largest, x[i]);
      }
      ASSERT_EQ(most, largest);
      for (size_t i = 0; i < x.size(); ++i) {
        const float below = x[i] - largest;  // rounded, as in any softmax in fp32
        const double one = std::exp(double{below});
        ASSERT_NEAR(e[i], one, 1e-6 * one + 1e-37);
        want += one;
      }
      ASSERT_NEAR(sum, want, 1e-6 * want);
    }
  }
}

}  // namespace xrun::exp_row_test
