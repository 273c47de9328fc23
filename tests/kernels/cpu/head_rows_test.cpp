// The head's rows against fp64, at widths around every vector and block boundary.

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "tests/kernels/cpu/kernel_case.h"

namespace xrun::head_rows_test {

class HeadRowsTest : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, HeadRowsTest, all_instruction_sets(), instruction_set_name);

namespace {

constexpr float kScale = 0.75f;

// The definition in fp64, of one row.
struct Row {
  double lse = 0, entropy = 0;
  std::vector<double> p;
  std::vector<int64_t> order;  // ids by falling logit, the lowest id first

  Row(const float* z, int64_t columns) : p(columns), order(columns) {
    double most = z[0], sum = 0;
    for (int64_t i = 0; i < columns; ++i) most = std::max<double>(most, z[i]);
    for (int64_t i = 0; i < columns; ++i) sum += std::exp(kScale * (z[i] - most));
    lse = kScale * most + std::log(sum);
    for (int64_t i = 0; i < columns; ++i) {
      p[i] = std::exp(kScale * z[i] - lse);
      if (p[i] > 0) entropy -= p[i] * std::log(p[i]);
    }
    std::iota(order.begin(), order.end(), int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return z[a] > z[b]; });
  }
};

struct Output {
  std::vector<float> logprob, lse, entropy, top_logprob;
  std::vector<int64_t> top_id;
};

Output run(const kernels::CpuKernels& table, const std::vector<float>& z, int64_t rows,
           int64_t width, int64_t columns, const std::vector<int64_t>& target, int64_t top,
           float scale = kScale) {
  const auto n = static_cast<size_t>(rows);
  Output out{std::vector<float>(target.size()), std::vector<float>(n), std::vector<float>(n),
             std::vector<float>(n * top), std::vector<int64_t>(n * top)};
  table.run(kernels::HeadRows{z.data(), rows, width, columns, scale, target.data(),
                              static_cast<int64_t>(target.size()) / rows, out.logprob.data(),
                              out.lse.data(), out.entropy.data(), top, out.top_logprob.data(),
                              out.top_id.data()});
  return out;
}

}  // namespace

TEST_P(HeadRowsTest, AgreesWithDoublePrecisionAtEveryWidth) {
  constexpr int64_t kRows = 2, kPadding = 3;
  for (const int64_t columns : {1, 2, 3, 15, 16, 17, 33, 64, 127, 2047, 2048, 2049, 50257}) {
    const int64_t width = columns + kPadding, top = std::min<int64_t>(columns, 7);
    const std::vector<float> z = random_floats(kRows * width, 7, 12.0f);
    const std::vector<int64_t> target = {0, columns - 1, columns / 2, columns / 2};
    const Output out = run(*kernels_, z, kRows, width, columns, target, top);
    for (int64_t r = 0; r < kRows; ++r) {
      const Row want(z.data() + r * width, columns);
      EXPECT_NEAR(out.lse[r], want.lse, 1.5e-6) << columns;
      EXPECT_NEAR(out.entropy[r], want.entropy, 3e-6) << columns;
      for (int64_t m = 0; m < 2; ++m) {
        const double logit = z[r * width + target[r * 2 + m]];
        EXPECT_NEAR(out.logprob[r * 2 + m], kScale * logit - want.lse, 2e-6) << columns;
      }
      for (int64_t i = 0; i < top; ++i) {
        EXPECT_EQ(out.top_id[r * top + i], want.order[i]) << columns << " rank " << i;
        EXPECT_NEAR(out.top_logprob[r * top + i], std::log(want.p[want.order[i]]), 2e-6);
      }
    }
  }
}

TEST_P(HeadRowsTest, TheGradientMatchesTheFormulaAndIsZeroInThePadding) {
  for (const int64_t columns : {1, 17, 2049}) {
    const int64_t width = columns + 2;
    const std::vector<float> z = random_floats(width, 8, 5.0f);
    const std::vector<int64_t> id = {0, columns - 1, 0};
    const std::vector<float> grad = {0.5f, -1.25f, 2.0f};
    const Row want(z.data(), columns);
    const auto lse = static_cast<float>(want.lse), entropy = static_cast<float>(want.entropy);
    const float b = 0.3f, c = -0.7f;
    for (const bool with_entropy : {false, true}) {
      std::vector<float> dz = z;  // in place
      kernels_->run(kernels::HeadRowsBackward{
          dz.data(), dz.data(), 1, width, columns, kScale, id.data(), grad.data(), 3, &lse, &b,
          with_entropy ? &entropy : nullptr, with_entropy ? &c : nullptr});
      for (int64_t i = 0; i < columns; ++i) {
        double ds = want.p[i] * (b - 1.25);
        for (int m = 0; m < 3; ++m) ds += id[m] == i ? grad[m] : 0;
        if (with_entropy) ds -= c * want.p[i] * (std::log(want.p[i]) + want.entropy);
        ASSERT_NEAR(dz[i], kScale * ds, 4e-6) << columns << " at " << i;
      }
      EXPECT_EQ(dz[columns], 0.0f);
      EXPECT_EQ(dz[columns + 1], 0.0f);
    }
  }
}

TEST_P(HeadRowsTest, NoLogProbIsAboveZeroAtALowTemperature) {
  constexpr int64_t kColumns = 3001;
  const std::vector<float> z = random_floats(kColumns, 11, 12.0f);
  const auto best = static_cast<int64_t>(std::max_element(z.begin(), z.end()) - z.begin());
  for (const float scale : {1.0f, 3.7f, 101.3f, 1e4f, 1e6f}) {
    const Output out = run(*kernels_, z, 1, kColumns, kColumns, {best}, 3, scale);
    EXPECT_LE(out.logprob[0], 0.0f) << scale;
    EXPECT_LE(out.top_logprob[0], 0.0f) << scale;
    EXPECT_GE(out.entropy[0], 0.0f) << scale;
    const int64_t id = 0;
    const float none = 0, one = 1;
    std::vector<float> dz = z;
    kernels_->run(kernels::HeadRowsBackward{dz.data(), dz.data(), 1, kColumns, kColumns, scale, &id,
                                            &none, 1, out.lse.data(), &one, nullptr, nullptr});
    double sum = 0;
    for (const float d : dz) sum += d / scale;
    EXPECT_NEAR(sum, 1.0, 2e-6) << scale;  // the probabilities, as the backward sees them
  }
}

TEST_P(HeadRowsTest, AMaskedColumnAddsNothingAndANanPropagates) {
  std::vector<float> z(40, 0.0f);
  z[3] = -std::numeric_limits<float>::infinity();
  Output out = run(*kernels_, z, 1, 40, 40, {0}, 40);
  EXPECT_NEAR(out.entropy[0], std::log(39.0), 1e-6);
  EXPECT_EQ(out.top_id[39], 3);
  z[37] = std::nanf("");
  out = run(*kernels_, z, 1, 40, 40, {0}, 40);
  EXPECT_TRUE(std::isnan(out.lse[0]) && std::isnan(out.entropy[0]) && std::isnan(out.logprob[0]));
  for (const int64_t id : out.top_id) EXPECT_TRUE(id >= 0 && id < 40);
}

TEST_P(HeadRowsTest, TopOfEqualLogitsHasTheLowestIds) {
  std::vector<float> z(5000, 1.0f);
  z[4999] = z[17] = 2.0f;
  const Output out = run(*kernels_, z, 1, 5000, 5000, {0}, 6);
  EXPECT_EQ(out.top_id, (std::vector<int64_t>{17, 4999, 0, 1, 2, 3}));
}

}  // namespace xrun::head_rows_test
