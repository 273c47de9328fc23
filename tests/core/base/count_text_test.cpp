#include "core/base/count_text.h"

#include <gtest/gtest.h>

namespace xrun::count_text_test {
namespace {

TEST(CountText, CountsAreGroupedByThousands) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(5310), "5,310");
  EXPECT_EQ(count_text(1234567), "1,234,567");
  EXPECT_EQ(count_text(-1000), "-1,000");
}

TEST(CountText, BytesGoByPowersOfAThousand) {
  EXPECT_EQ(format_bytes(999), "999 bytes");
  EXPECT_EQ(format_bytes(1.6e9), "1.6 GB");
  EXPECT_EQ(format_bytes(512e3), "512 KB");
}

}  // namespace
}  // namespace xrun::count_text_test
