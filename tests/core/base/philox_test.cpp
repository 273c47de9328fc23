// Philox gives the published known answers, and its streams never collide.

#include "core/base/philox.h"

#include <gtest/gtest.h>

#include <set>

namespace xrun::philox_test {
namespace {

// Known answers of the authors' Random123 library (kat_vectors, philox4x32 10 rounds).
TEST(Philox, AgreesWithTheKnownAnswers) {
  const std::array<uint32_t, 4> zeros = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  EXPECT_EQ(philox(0, 0, 0), zeros);
  const std::array<uint32_t, 4> ones = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
  EXPECT_EQ(philox(~0ULL, ~0ULL, ~0ULL), ones);
}

TEST(Philox, StreamsAndCountersDoNotCollide) {
  std::set<uint64_t> seen;
  for (uint64_t stream = 0; stream < 8; ++stream) {
    for (uint64_t a = 0; a < 16; ++a) {
      for (uint64_t b = 0; b < 16; ++b) seen.insert(philox_u64(7, stream, a, b));
    }
  }
  EXPECT_EQ(seen.size(), 8u * 16 * 16);
}

TEST(Philox, UnitNumbersStayBelowOne) {
  double sum = 0;
  for (uint64_t i = 0; i < 10000; ++i) {
    const double u = philox_unit(1, 2, 3, i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.02);
}

}  // namespace
}  // namespace xrun::philox_test
