#pragma once
// Differences from an independent implementation, which docs/parity.md shows:
// tools/oracle/parity.py reads them from GoogleTest's report.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

namespace xrun {

// Notes a difference of the running test: the report has the number of values ("values") and, of
// the one that uses the largest share of its bound, "difference" and "bound".
inline void note_parity(double difference, double bound) {
  static const testing::TestInfo* test = nullptr;
  static double most = 0;
  static int64_t values = 0;
  const testing::TestInfo* const now = testing::UnitTest::GetInstance()->current_test_info();
  if (now != test) {
    test = now;
    most = -1;
    values = 0;
  }
  testing::Test::RecordProperty("values", std::to_string(++values));
  const double share = bound > 0 ? difference / bound : difference;
  if (share <= most) return;
  most = share;
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", difference);
  testing::Test::RecordProperty("difference", text);
  std::snprintf(text, sizeof text, "%.0e", bound);
  testing::Test::RecordProperty("bound", text);
}

// EXPECT_NEAR that notes the difference.
inline void expect_parity(double got, double wanted, double bound) {
  EXPECT_NEAR(got, wanted, bound);
  note_parity(std::abs(got - wanted), bound);
}

}  // namespace xrun
