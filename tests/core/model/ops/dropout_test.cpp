// Dropout masks: the rate, the values, and the dependence on key and element.

#include "core/model/ops/dropout.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "tests/error_of.h"

namespace xrun::dropout_test {

TEST(DropoutMask, DropsItsShareAndScalesTheRest) {
  const at::Tensor mask = dropout_mask(at::zeros({1000, 37}), 5, 0.25);
  const at::Tensor kept = mask.ne(0);
  EXPECT_NEAR(kept.to(at::kDouble).mean().item<double>(), 0.75, 0.01);
  EXPECT_EQ(mask.max().item<float>(), static_cast<float>(1 / 0.75));
  EXPECT_EQ(dropout_mask(at::zeros({9}), 5, 0).min().item<float>(), 1);
}

TEST(DropoutMask, DependsOnKeyAndIndexOnly) {
  const at::Tensor mask = dropout_mask(at::zeros({7, 5}), 5, 0.5);
  EXPECT_TRUE(at::equal(dropout_mask(at::zeros({5, 9}), 5, 0.5).flatten().narrow(0, 0, 35),
                        mask.flatten()));
  EXPECT_TRUE(
      at::equal(dropout_mask(at::zeros({7, 5}, at::kBFloat16), 5, 0.5).to(at::kFloat), mask));
  EXPECT_FALSE(at::equal(dropout_mask(at::zeros({7, 5}), 6, 0.5), mask));
  for (int64_t i = 0; i < 35; ++i) {
    const uint32_t word = philox(5, 0, static_cast<uint64_t>(i / 4))[static_cast<size_t>(i % 4)];
    EXPECT_EQ(mask.flatten()[i].item<float>(), word < uint64_t{1} << 31 ? 0 : 2) << i;
  }
}

TEST(DropoutMask, RefusesARateOutOfRangeAndATypeWithoutFractions) {
  for (const double rate : {-0.1, 1.0, std::nan("")}) {
    EXPECT_EQ(error_of([&] { dropout_mask(at::zeros({3}), 5, rate); }),
              fmt::format("dropout_mask: rate is {}, wanted 0 or more and below 1", rate));
  }
  EXPECT_EQ(error_of([&] { dropout_mask(at::zeros({3}, at::kLong), 5, 0.5); }),
            "dropout_mask: like is Long, wanted a floating type");
}

}  // namespace xrun::dropout_test
