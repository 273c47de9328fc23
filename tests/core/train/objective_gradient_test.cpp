#include "core/train/objective_gradient.h"

#include <gtest/gtest.h>

#include <limits>

namespace xrun::objective_gradient_test {
namespace {

TEST(LogprobCheck, AllowsMoreErrorWhereTheLossIsNarrow) {
  LogprobCheck check;
  EXPECT_TRUE(check.agrees({.error = 1e-6}));
  EXPECT_FALSE(check.agrees({.error = 1e-4}));
  check.narrow = true;
  EXPECT_TRUE(check.agrees({.error = 1e-4}));
  EXPECT_FALSE(check.agrees({.error = 0.1}));
}

TEST(LogprobCheck, AgreesWithNoErrorThatIsNoNumber) {
  const LogprobCheck check;
  EXPECT_FALSE(check.agrees({.error = std::numeric_limits<double>::quiet_NaN()}));
  EXPECT_FALSE(check.agrees({.error = std::numeric_limits<double>::infinity()}));
}

}  // namespace
}  // namespace xrun::objective_gradient_test
