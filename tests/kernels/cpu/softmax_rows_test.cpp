// Row softmax against fp64, at widths around every vector and block boundary.

#include "tests/kernels/cpu/kernel_case.h"

namespace xrun::softmax_rows_test {

class SoftmaxRowsTest : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, SoftmaxRowsTest, all_instruction_sets(), instruction_set_name);

namespace {

double reference_lse(const float* x, int64_t width) {
  double most = x[0], sum = 0;
  for (int64_t i = 1; i < width; ++i) most = std::max<double>(most, x[i]);
  for (int64_t i = 0; i < width; ++i) sum += std::exp(x[i] - most);
  return most + std::log(sum);
}

}  // namespace

TEST_P(SoftmaxRowsTest, AgreesWithDoublePrecisionAtEveryWidth) {
  for (const int64_t width : {1, 2, 3, 15, 16, 17, 31, 33, 64, 127, 4095, 4096, 4097, 50257}) {
    const int64_t rows = 3;
    const std::vector<float> logits = random_floats(rows * width, 7, 12.0f);
    const std::vector<int64_t> target = {0, width / 2, width - 1};
    std::vector<float> x = logits, logprob(rows), lse(rows);
    kernels_->run(kernels::SoftmaxRows{x.data(), nullptr, target.data(), logprob.data(), lse.data(),
                                       rows, width, true});
    for (int64_t r = 0; r < rows; ++r) {
      const double want = reference_lse(logits.data() + r * width, width);
      EXPECT_NEAR(lse[r], want, 1.5e-6) << width;
      EXPECT_NEAR(logprob[r], logits[r * width + target[r]] - want, 1.5e-6) << width;
      for (int64_t i = 0; i < width; ++i) {
        const double p = std::exp(logits[r * width + i] - want) - (i == target[r] ? 1 : 0);
        ASSERT_NEAR(x[r * width + i], p, 1e-6) << width << " at " << i;
      }
    }
  }
}

TEST_P(SoftmaxRowsTest, LeavesTheLogitsWhenNotKept) {
  const std::vector<float> logits = random_floats(2 * 77, 8, 3.0f);
  std::vector<float> x = logits, logprob(2), kept(2);
  const std::vector<int64_t> target = {5, 76};
  kernels_->run(kernels::SoftmaxRows{x.data(), nullptr, target.data(), logprob.data(), nullptr, 2,
                                     77, false});
  EXPECT_EQ(x, logits);
  kernels_->run(
      kernels::SoftmaxRows{x.data(), nullptr, target.data(), kept.data(), nullptr, 2, 77, true});
  EXPECT_EQ(logprob, kept);
}

TEST_P(SoftmaxRowsTest, RecomputationFromTheLogSumExpGivesTheKeptRows) {
  const std::vector<float> logits = random_floats(2 * 1003, 9, 20.0f);
  std::vector<float> kept = logits, again = logits, logprob(2), lse(2);
  const std::vector<int64_t> target = {1002, 17};
  kernels_->run(kernels::SoftmaxRows{kept.data(), nullptr, target.data(), logprob.data(),
                                     lse.data(), 2, 1003, true});
  kernels_->run(kernels::SoftmaxFromLse{again.data(), nullptr, target.data(), lse.data(), 2, 1003});
  for (size_t i = 0; i < kept.size(); ++i) ASSERT_NEAR(kept[i], again[i], 2e-6);
}

TEST_P(SoftmaxRowsTest, SurvivesHugeLogitsAndPropagatesNans) {
  std::vector<float> x = {1e30f, -1e30f, 0.0f, 3e38f};
  const int64_t target = 3;
  float logprob = 1;
  kernels_->run(kernels::SoftmaxRows{x.data(), nullptr, &target, &logprob, nullptr, 1, 4, true});
  EXPECT_EQ(logprob, 0.0f);
  EXPECT_EQ(x, (std::vector<float>{0, 0, 0, 0}));
  std::vector<float> bad(40, 0.0f);
  bad[37] = std::nanf("");
  kernels_->run(
      kernels::SoftmaxRows{bad.data(), nullptr, &target, &logprob, nullptr, 1, 40, false});
  EXPECT_TRUE(std::isnan(logprob));
}

TEST(CpuKernels, TheChosenTableIsTheWidestThatTheMachineRuns) {
  const kernels::CpuKernels* widest = kernels::cpu_kernels_named("avx512");
  if (widest == nullptr) widest = kernels::cpu_kernels_named("avx2");
  if (widest == nullptr) widest = kernels::cpu_kernels_named("portable");
  if (std::getenv("XRUN_CPU") == nullptr) {
    EXPECT_STREQ(kernels::cpu_kernels().name, widest->name);
  }
  EXPECT_EQ(kernels::cpu_kernels_named("sse9"), nullptr);
}

}  // namespace xrun::softmax_rows_test
