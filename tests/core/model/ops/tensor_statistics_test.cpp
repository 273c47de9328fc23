// Extremes, moments, counts of odd values and the histogram, against ATen.

#include "core/model/ops/tensor_statistics.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "core/base/error.h"
#include "tests/error_of.h"

namespace xrun::tensor_statistics_test {
namespace {

TEST(TensorStatistics, AgreesWithATenOnAnOddShapeAndStrides) {
  const at::Tensor tensor = at::randn({37, 53}).t();
  const TensorStatistics found = tensor_statistics(tensor);
  EXPECT_EQ(found.sampled, 37 * 53);
  EXPECT_NEAR(found.mean, tensor.to(at::kDouble).mean().item().toDouble(), 1e-12);
  EXPECT_NEAR(found.deviation, tensor.to(at::kDouble).std(false).item().toDouble(), 1e-12);
  EXPECT_EQ(found.min, tensor.min().item().toDouble());
  EXPECT_EQ(found.max, tensor.max().item().toDouble());
  EXPECT_EQ(std::accumulate(found.histogram.begin(), found.histogram.end(), int64_t{0}), 37 * 53);
}

TEST(TensorStatistics, CountsNonFiniteValuesSeparately) {
  at::Tensor tensor = at::ones({10});
  tensor[0] = std::numeric_limits<float>::quiet_NaN();
  tensor[1] = -std::numeric_limits<float>::infinity();
  const TensorStatistics found = tensor_statistics(tensor);
  EXPECT_EQ(found.nans, 1);
  EXPECT_EQ(found.infinities, 1);
  EXPECT_EQ(found.finite, 8);
  EXPECT_EQ(found.mean, 1);
  const TensorStatistics none = tensor_statistics(at::full({3}, tensor[0].item()));
  EXPECT_EQ(none.finite, 0);
  EXPECT_EQ(none.min, 0);
  EXPECT_EQ(tensor_statistics(at::ones({0})).sampled, 0);
}

TEST(TensorStatistics, ASampleIsSpreadOverRowsAndColumns) {
  // Each value is its column: a stride that divides the row length would see a single column.
  const at::Tensor tensor = at::arange(4096, at::kFloat).expand({4096, 4096});
  const TensorStatistics found = tensor_statistics(tensor, 1 << 20);
  EXPECT_EQ(found.elements, int64_t{4096} * 4096);
  EXPECT_EQ(found.sampled, 16384);
  EXPECT_NEAR(found.mean, 2047.5, 30);
  for (const int64_t count : found.histogram) EXPECT_NEAR(count, 512, 100);
}

TEST(TensorStatistics, TheSpanOfExtremesMayOverflow) {
  const at::Tensor tensor =
      at::arange(-3, 4, at::kDouble).mul(std::numeric_limits<double>::max() / 3);
  const TensorStatistics found = tensor_statistics(tensor);
  EXPECT_EQ(found.histogram.front(), 1);
  EXPECT_EQ(found.histogram.back(), 1);
}

TEST(TensorStatistics, ReadsEveryTypeOfNumber) {
  for (const at::ScalarType type : {at::kBool, at::kByte, at::kLong, at::kHalf, at::kBFloat16}) {
    EXPECT_EQ(tensor_statistics(at::ones({100}, type)).mean, 1) << type;
  }
  EXPECT_FALSE(has_statistics(at::ones({2}, at::kComplexFloat)));
  EXPECT_EQ(error_of([&] { tensor_statistics(at::ones({2}, at::kComplexFloat)); }),
            "this tensor has no numbers that can be counted");
}

}  // namespace
}  // namespace xrun::tensor_statistics_test
