#include "core/base/shell_word.h"

#include <gtest/gtest.h>

namespace xrun::shell_word_test {

TEST(ShellWord, QuotesOnlyWhatAShellWouldRead) {
  EXPECT_EQ(shell_word("runs/a-1.lua"), "runs/a-1.lua");
  EXPECT_EQ(shell_word("beta=0.3"), "beta=0.3");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("two words"), "'two words'");
  EXPECT_EQ(shell_word("it's $HOME"), R"('it'\''s $HOME')");
}

}  // namespace xrun::shell_word_test
