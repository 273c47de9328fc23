// Rotary positions: the pairing, the inverse, the types.

#include "tests/kernels/cpu/kernel_case.h"

namespace xrun::rope_test {

class RopeTest : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, RopeTest, all_instruction_sets(), instruction_set_name);

TEST_P(RopeTest, RotatesPairsHalfAHeadApart) {
  for (const int64_t head_dim : {2, 6, 16, 32, 64, 80}) {
    const int64_t rows = 3, heads = 2, half = head_dim / 2;
    const auto x = random_floats(rows * heads * head_dim, 1),
               angle = random_floats(rows * half, 2, 3);
    std::vector<float> c, s, y(x.size());
    for (const float a : angle) c.push_back(std::cos(a)), s.push_back(std::sin(a));
    kernels_->run(
        kernels::Rope<float>{x.data(), y.data(), c.data(), s.data(), rows, heads, head_dim, false});
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t i = 0; i < half; ++i) {
          const int64_t low = (r * heads + h) * head_dim + i, high = low + half, a = r * half + i;
          EXPECT_NEAR(y[low], x[low] * c[a] - x[high] * s[a], 1e-6);
          EXPECT_NEAR(y[high], x[high] * c[a] + x[low] * s[a], 1e-6);
        }
      }
    }
    kernels_->run(
        kernels::Rope<float>{y.data(), y.data(), c.data(), s.data(), rows, heads, head_dim, true});
    for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(y[i], x[i], 1e-6);
  }
}

TEST_P(RopeTest, InBf16RoundsOnce) {
  const auto x = to_bf16(random_floats(40, 3));
  const auto wide = from_bf16(x), c = random_floats(20, 4), s = random_floats(20, 5);
  std::vector<kernels::Bf16> y(40);
  std::vector<float> wide_y(40);
  kernels_->run(
      kernels::Rope<kernels::Bf16>{x.data(), y.data(), c.data(), s.data(), 1, 1, 40, false});
  kernels_->run(
      kernels::Rope<float>{wide.data(), wide_y.data(), c.data(), s.data(), 1, 1, 40, false});
  EXPECT_EQ(y, to_bf16(wide_y));
}

}  // namespace xrun::rope_test
