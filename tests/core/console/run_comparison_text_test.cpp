#include "core/console/run_comparison_text.h"

#include <gtest/gtest.h>

namespace xrun {
namespace {

std::string text_of(const RunComparison& comparison) {
  const Console console([](std::string_view) {}, ConsoleTraits{});
  return comparison_text(comparison, console);
}

TEST(RunComparisonText, ASameRunTakesALineAPart) {
  RunComparison comparison;
  comparison.common_lines = 16;
  EXPECT_EQ(text_of(comparison),
            "config    the same settings\n"
            "code      the same recipe and program\n"
            "data      the same rows, tokens and order\n"
            "results   the same in all 16 lines of metrics, bit for bit\n"
            "machine   the same kind of machine and settings\n");
}

TEST(RunComparisonText, ShowsWhatDiffers) {
  RunComparison comparison;
  comparison.name_a = "a";
  comparison.name_b = "b";
  comparison.settings = {{"beta", "0.1", "0.2", "dpo.lua:9", "--set", ""},
                         {"data.1.path", "x", "y", "", "", "the same bytes"}};
  comparison.recipe_same = false;
  comparison.recipe = diff_lines("one\ntwo\n", "one\nthree\n");
  comparison.data = {{"rows.1.kept", "300", "299"}};
  comparison.steps_a = comparison.steps_b = 16;
  comparison.common_lines = 16;
  comparison.first_apart = 2;
  comparison.apart = {{"train/loss", "0.5", "0.25"}};
  comparison.finals = {{"train/loss", 15, 15, 0.5, 0.25}};
  comparison.only_b = {"valid/loss"};
  EXPECT_EQ(text_of(comparison),
            "config\n"
            "  key          a                b\n"
            "  beta         0.1 (dpo.lua:9)  0.2 (--set)\n"
            "  data.1.path  x                y            the same bytes\n"
            "code\n"
            "      1  one\n"
            "  -   2  two\n"
            "  +   2  three\n"
            "data\n"
            "               a    b\n"
            "  rows.1.kept  300  299\n"
            "results\n"
            "  they part at step 2: train/loss\n"
            "  b alone logged valid/loss\n"
            "                     a     b\n"
            "  last train/loss  0.5  0.25\n"
            "machine   the same kind of machine and settings\n");
}

TEST(RunComparisonText, ForeignTextCannotActOnTheTerminal) {
  RunComparison comparison;
  comparison.name_a = "\x1b[2J";
  comparison.settings = {{"k\x1b]0;x\x07", "\x9b", "a\nb", "", "\x1b[A", ""}};
  comparison.recipe = diff_lines("\x1b[31m\n", "x\n");
  comparison.only_a = {"\x1b[H"};
  const std::string text = text_of(comparison);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\x07'), std::string::npos);
  EXPECT_EQ(text.find('\x9b'), std::string::npos);
}

}  // namespace
}  // namespace xrun
