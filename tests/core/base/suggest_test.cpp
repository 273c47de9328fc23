#include "core/base/suggest.h"

#include <gtest/gtest.h>

namespace xrun::suggest_test {
namespace {

TEST(Suggest, CountsASwapOfNeighboursAsOne) {
  EXPECT_EQ(edit_distance("beta", "beat"), 1);
  EXPECT_EQ(edit_distance("beta", "betta"), 1);
  EXPECT_EQ(edit_distance("", "abc"), 3);
}

TEST(Suggest, OffersTheNearestNameAndNothingFarOff) {
  EXPECT_EQ(nearest_name("betta", {"beta", "batch"}), "beta");
  EXPECT_EQ(nearest_name("learning_rate", {"lr", "beta"}), "");
  EXPECT_EQ(nearest_name("x", {"lr"}), "");
}

TEST(Suggest, OfTwoAsNearTheOneThatBeginsAlikeWins) {
  EXPECT_EQ(nearest_name("summ", {"smm", "sum"}), "sum");
  EXPECT_EQ(nearest_name("ab", {"b", "a"}), "a");
  EXPECT_EQ(nearest_name("xa", {"ya", "za"}), "ya");
}

}  // namespace
}  // namespace xrun::suggest_test
