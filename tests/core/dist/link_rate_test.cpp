// The loopback rate is measured between any number of ranks.

#include "core/dist/link_rate.h"

#include <gtest/gtest.h>

namespace xrun::link_rate_test {
namespace {

TEST(SlowLinkRate, IsMeasuredBetweenRanks) {
  for (const int64_t ranks : {2, 3}) {
    const double rate = time_loopback(ranks);
    EXPECT_GT(rate, 1e6) << ranks;
    EXPECT_LT(rate, 1e12) << ranks;
  }
}

}  // namespace
}  // namespace xrun::link_rate_test
