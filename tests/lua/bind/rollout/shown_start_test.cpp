// A message shows the beginning of a prompt or an answer in whole characters.

#include <gtest/gtest.h>

#include <string>

#include "lua/bind/rollout/rollouts.h"

namespace xrun::shown_start_test {

TEST(ShownStart, EndsBetweenTwoCharacters) {
  const std::string ascii(199, 'a');
  EXPECT_EQ(shown_start(ascii + "é"), ascii + "...");
  EXPECT_EQ(shown_start(ascii + "b"), ascii + "b");
  EXPECT_EQ(shown_start("one\ntwo"), "one⏎two");
}

}  // namespace xrun::shown_start_test
