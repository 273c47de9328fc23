#include "core/console/terminal/quantile.h"

#include <gtest/gtest.h>

#include <cmath>

namespace xrun::quantile_test {
namespace {

TEST(Quantile, IsOfTheFiniteValues) {
  EXPECT_EQ(quantile({3, NAN, 1, INFINITY, 2}, 0.5), 2);
  EXPECT_EQ(quantile({3, 1, 2}, 0), 1);
  EXPECT_EQ(quantile({3, 1, 2}, 1), 3);
  EXPECT_TRUE(std::isnan(quantile({}, 0.5)));
  EXPECT_TRUE(std::isnan(quantile({NAN}, 0.5)));
}

}  // namespace
}  // namespace xrun::quantile_test
