// Exponentials of a row below its largest, at odd widths and temperatures, and the bits of
// HeadRows.

#include <algorithm>

#include "tests/kernels/cpu/kernel_case.h"

namespace xrun::exp_row_test {

class ExpRowTest : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, ExpRowTest, all_instruction_sets(), instruction_set_name);

TEST_P(ExpRowTest, AgreesWithDoublePrecision) {
  for (const int64_t width : {1, 3, 16, 97, 2049, 50304}) {
    for (const float scale : {1.0f, 3.3f, 0.15f}) {
      const auto x = random_floats(width, 4, 12.0f);
      std::vector<float> e(x.size());
      float most = 0;
      double sum = 0;
      kernels_->run(kernels::ExpRow{x.data(), e.data(), &most, &sum, width, scale});
      double want = 0;
      ASSERT_EQ(most, *std::max_element(x.begin(), x.end()));
      for (size_t i = 0; i < x.size(); ++i) {
        const float below = (x[i] - most) * scale;  // rounded, as in any softmax in fp32
        const double one = std::exp(double{below});
        ASSERT_NEAR(e[i], one, 1e-6 * one + 1e-37);
        want += one;
      }
      ASSERT_NEAR(sum, want, 1e-6 * want);
      const int64_t target = width / 2;
      float logprob = 0, lse = 0;
      kernels::HeadRows head{};
      head.z = x.data(), head.rows = 1, head.width = head.columns = width, head.scale = scale;
      head.target = &target, head.targets = 1, head.logprob = &logprob, head.lse = &lse;
      kernels_->run(head);
      const double below = static_cast<double>(x[static_cast<size_t>(target)]) - most;
      ASSERT_EQ(logprob, static_cast<float>(std::fma(below, double{scale}, -std::log(sum))))
          << width;
    }
  }
}

}  // namespace xrun::exp_row_test
