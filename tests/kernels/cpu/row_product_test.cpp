// Linear maps against fp64; the bits of a row do not depend on the rows beside it.

#include <algorithm>

#include "tests/kernels/cpu/kernel_case.h"

namespace xrun::row_product_test {

class RowProductTest : public KernelTest {
 protected:
  // y [rows, columns] of x [rows, inner] and w [columns, inner].
  std::vector<float> product(const std::vector<float>& x, const std::vector<float>& w,
                             const std::vector<float>& bias, int64_t rows, int64_t columns,
                             int64_t inner) const {
    std::vector<float> y(static_cast<size_t>(rows * columns), -7.0f);
    kernels_->run(kernels::RowProduct{x.data(), inner, w.data(), inner,
                                      bias.empty() ? nullptr : bias.data(), y.data(), columns, rows,
                                      columns, inner});
    return y;
  }
};
INSTANTIATE_TEST_SUITE_P(Cpu, RowProductTest, all_instruction_sets(), instruction_set_name);

struct ProductShape {
  int64_t rows, columns, inner;
};
// Below, at and beyond a tile, a panel and a vector; 2,100 inner elements take several panels.
constexpr ProductShape kShapes[] = {{1, 1, 1},    {1, 70, 33},    {3, 31, 16},
                                    {14, 32, 64}, {15, 33, 65},   {29, 7, 40},
                                    {5, 64, 130}, {40, 45, 2100}, {2, 16, 0}};

TEST_P(RowProductTest, AgreesWithDoublePrecision) {
  for (const auto& [rows, columns, inner] : kShapes) {
    const auto x = random_floats(rows * inner, 1), w = random_floats(columns * inner, 2);
    const auto bias = random_floats(columns, 3);
    const auto y = product(x, w, bias, rows, columns, inner);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        double want = bias[c];
        for (int64_t k = 0; k < inner; ++k) want += double{x[r * inner + k]} * w[c * inner + k];
        // A sum of products in fp32: each of its `inner` roundings adds to the error.
        ASSERT_NEAR(y[r * columns + c], want, 2e-6 + 2e-7 * static_cast<double>(inner))
            << rows << " x " << columns << " x " << inner;
      }
    }
  }
}

TEST_P(RowProductTest, ARowHasTheSameBitsAloneAndAmongOthers) {
  const int64_t columns = 37, inner = 1100, most = 60;
  const auto x = random_floats(most * inner, 1), w = random_floats(columns * inner, 2);
  const auto all = product(x, w, {}, most, columns, inner);
  for (int64_t rows = 1; rows < most; rows += rows < 20 ? 1 : 7) {
    for (const int64_t from : {int64_t{0}, (most - rows) / 2, most - rows}) {
      const std::vector<float> some(x.begin() + from * inner, x.begin() + (from + rows) * inner);
      const auto y = product(some, w, {}, rows, columns, inner);
      ASSERT_TRUE(std::equal(y.begin(), y.end(), all.begin() + from * columns))
          << rows << " rows from " << from;
    }
  }
}

TEST_P(RowProductTest, ColumnsMayBeSplitAnywhere) {
  const int64_t rows = 17, columns = 90, inner = 50;
  const auto x = random_floats(rows * inner, 1), w = random_floats(columns * inner, 2);
  const auto bias = random_floats(columns, 3);
  const auto all = product(x, w, bias, rows, columns, inner);
  std::vector<float> y(all.size());
  for (int64_t j = 0; j < columns; j += 13) {
    kernels_->run(kernels::RowProduct{x.data(), inner, w.data() + j * inner, inner, bias.data() + j,
                                      y.data() + j, columns, rows,
                                      std::min<int64_t>(13, columns - j), inner});
  }
  EXPECT_EQ(y, all);
}

TEST_P(RowProductTest, PackedColumnsGiveTheSameBits) {
  for (const auto& [rows, columns, inner] : kShapes) {
    const auto x = random_floats(rows * inner, 1), w = random_floats(columns * inner, 2);
    const auto bias = random_floats(columns, 3);
    constexpr int64_t kColumns = kernels::kPackedColumns;
    std::vector<float> panels((columns + kColumns - 1) / kColumns * kColumns * inner);
    // In two calls, as two threads would.
    const int64_t first = std::min(columns, kColumns);
    kernels_->run(kernels::PackColumns{w.data(), inner, panels.data(), first, inner});
    kernels_->run(kernels::PackColumns{w.data() + first * inner, inner,
                                       panels.data() + first * inner, columns - first, inner});
    std::vector<float> y(static_cast<size_t>(rows * columns), -7.0f);
    kernels_->run(kernels::RowProduct{x.data(), inner, nullptr, 0, bias.data(), y.data(), columns,
                                      rows, columns, inner, panels.data()});
    EXPECT_EQ(y, product(x, w, bias, rows, columns, inner))
        << rows << " x " << columns << " x " << inner;
  }
}

TEST_P(RowProductTest, StridesLeaveTheirGapsAlone) {
  const int64_t rows = 4, columns = 21, inner = 19, gap = 5;
  const auto x = random_floats(rows * (inner + gap), 1), w = random_floats(columns * inner, 2);
  std::vector<float> y(rows * (columns + gap), -7.0f), dense;
  for (int64_t r = 0; r < rows; ++r) {
    dense.insert(dense.end(), x.begin() + r * (inner + gap), x.begin() + r * (inner + gap) + inner);
  }
  kernels_->run(kernels::RowProduct{x.data(), inner + gap, w.data(), inner, nullptr, y.data(),
                                    columns + gap, rows, columns, inner});
  const auto want = product(dense, w, {}, rows, columns, inner);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns + gap; ++c) {
      ASSERT_EQ(y[r * (columns + gap) + c], c < columns ? want[r * columns + c] : -7.0f);
    }
  }
}

TEST_P(RowProductTest, FusedInstructionSetsGiveTheSameBits) {
  const kernels::CpuKernels* other = kernels::cpu_kernels_named("avx2");
  if (other == nullptr) GTEST_SKIP() << "this machine has no avx2";
  if (std::string(GetParam()) == "portable") GTEST_SKIP() << "portable has no fused multiply-add";
  const int64_t rows = 9, columns = 40, inner = 77;
  const auto x = random_floats(rows * inner, 1), w = random_floats(columns * inner, 2);
  const auto y = product(x, w, {}, rows, columns, inner);
  kernels_ = other;
  EXPECT_EQ(y, product(x, w, {}, rows, columns, inner));
}

}  // namespace xrun::row_product_test
