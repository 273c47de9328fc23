// The text of a comparison shows every difference within the terminal's width.

#include <gtest/gtest.h>

#include <string>

#include "core/console/report/report.h"
#include "core/console/terminal/text_width.h"

namespace xrun::run_comparison_text_test {
namespace {

std::string text_of(const RunComparison& comparison, const ConsoleTraits& traits = {}) {
  const Console console([](std::string_view) {}, traits);
  return comparison_text(comparison, console);
}

// A terminal of some columns.
ConsoleTraits columns(int width, ColorDepth colors = ColorDepth::kNone) {
  return {true, colors, width};
}

// Runs that differ in everything, with names and values of any length.
RunComparison different_runs() {
  RunComparison comparison;
  comparison.name_a = "dpo-1a2b3c4d";
  comparison.name_b = "a-recipe-of-a-rather-long-name-9f8e7d6c";
  comparison.settings = {
      {"beta", "0.1", "0.2", "recipes/dpo.lua:9", "--set", ""},
      {"data.1.path", "recipes/data/preferences.jsonl", "日本語の/とても/長い/名前.jsonl",
       "recipes/dpo.lua:12", "recipes/dpo.lua:12", "the same bytes"}};
  comparison.recipe_same = false;
  comparison.recipe = diff_lines("local beta = cfg.beta\n", "local beta = cfg.beta * 2 -- twice\n");
  comparison.program = {{"binary.xrun", "0123456789abcdef0123456789abcdef", "absent"}};
  comparison.data = {{"rows.1.kept", "300", "299"}};
  comparison.machine = {{"machine.processor", std::string(300, 'x'), "AMD EPYC 9554 64-Core"}};
  comparison.steps_a = 16;
  comparison.steps_b = 1600000;
  comparison.common_lines = 16;
  comparison.first_divergence = 2;
  comparison.diverging = {{"train/loss", "0.5", "0.25"}, {"train/reward_chosen", "0.5", "0.25"}};
  comparison.finals = {{"train/loss", 15, 15, 0.123456789012345, 0.25}};
  comparison.only_b = {"valid/loss", "valid/a_set_of_a_long_name/reward_rejected"};
  comparison.weights = {{"policy.safetensors", "0123456789abcdef", "fedcba9876543210"}};
  return comparison;
}

TEST(RunComparisonText, EqualRunsTakeOneLinePerSection) {
  RunComparison comparison;
  comparison.common_lines = 16;
  comparison.steps_a = comparison.steps_b = 16;
  EXPECT_EQ(text_of(comparison),
            "config    the same settings\n"
            "code      the same recipe and program\n"
            "data      the same rows, tokens and order\n"
            "results   the same in all 16 lines of metrics, bit for bit; both have 16 steps\n"
            "machine   the same kind of machine and settings\n");
}

TEST(RunComparisonText, DifferencesBeyondTheLimitAreCounted) {
  RunComparison comparison;
  for (int i = 0; i < 203; ++i) {
    comparison.machine.push_back({"machine.m" + std::to_string(i), "1", "2"});
  }
  const std::string text = text_of(comparison);
  EXPECT_NE(text.find("machine.m199"), std::string::npos);
  EXPECT_EQ(text.find("machine.m200"), std::string::npos);
  EXPECT_TRUE(text.ends_with("\n  and 3 more\n"));
  comparison.machine.resize(200);
  EXPECT_EQ(text_of(comparison).find("more"), std::string::npos);
}

TEST(RunComparisonText, RecipesAreComparedByTheirFilesAndSettings) {
  RunComparison comparison;
  comparison.rows_known = false;
  comparison.settings = {{"beta", "0.1", "0.2", "", "", ""},
                         {"data.1.path", "x", "y", "", "", "the same bytes"}};
  EXPECT_NE(text_of(comparison).find("data      the same files, read by the same settings\n"),
            std::string::npos);
  for (const char* key : {"data.1.weight", "max_length", "seed", "shuffle.block"}) {
    comparison.settings.push_back({key, "1", "2", "", "", ""});
  }
  EXPECT_NE(
      text_of(comparison)
          .find("data      the same files; rows, tokens or order may differ by data.1.weight, "
                "max_length, seed, shuffle.block\n"),
      std::string::npos)
      << text_of(comparison);
}

TEST(RunComparisonText, SaysThatUnknownFilesAreNotCompared) {
  RunComparison comparison;
  comparison.data_known = comparison.rows_known = false;
  EXPECT_NE(
      text_of(comparison).find("data      not compared: the files of one of them are unknown\n"),
      std::string::npos);
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
  comparison.first_divergence = 2;
  comparison.diverging = {{"train/loss", "0.5", "0.25"}};
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
            "  of 16 steps in both the first difference is at step 2: train/loss\n"
            "  only b logged valid/loss\n"
            "                     a     b\n"
            "  last train/loss  0.5  0.25\n"
            "machine   the same kind of machine and settings\n");
}

TEST(RunComparisonText, NoLineIsWiderThanTheTerminal) {
  RunComparison same;
  same.common_lines = 16;
  RunComparison unknown = different_runs();
  unknown.recipe_known = false;
  for (const RunComparison& comparison : {different_runs(), same, unknown}) {
    for (const int width : {20, 40, 60, 80, 120}) {
      const std::string text = text_of(comparison, columns(width, ColorDepth::k16));
      for (size_t at = 0; at < text.size();) {
        const size_t end = text.find('\n', at);
        EXPECT_LE(text_width(text.substr(at, end - at)), width) << text.substr(at, end - at);
        at = end + 1;
      }
    }
  }
}

TEST(RunComparisonText, ValuesGoBelowEachOtherOnANarrowTerminal) {
  RunComparison comparison;
  comparison.name_a = "dpo-1a2b3c4d";
  comparison.name_b = "dpo-of-a-long-name-9f8e7d6c";
  comparison.settings = {{"data.1.path", "x", "a_rather_long_value", "", "", "the same bytes"}};
  comparison.steps_a = comparison.steps_b = comparison.common_lines = 16;
  comparison.finals = {{"train/loss", 15, 15, 0.123456789, 0.25}};
  EXPECT_EQ(text_of(comparison, columns(24)),
            "- dpo-1a2b3c4d\n"
            "+ dpo-of-a-long-name-9f…\n"
            "config\n"
            "  no difference that has\n"
            "  an effect\n"
            "  data.1.path\n"
            "  - x\n"
            "  + a_rather_long_value\n"
            "  the same bytes\n"
            "code\n"
            "  the same recipe and\n"
            "  program\n"
            "data\n"
            "  the same rows, tokens\n"
            "  and order\n"
            "results\n"
            "  the same values, bit\n"
            "  for bit, in the 16\n"
            "  steps that both have\n"
            "  last train/loss\n"
            "  - 0.12346\n"
            "  + 0.25\n"
            "machine\n"
            "  the same kind of\n"
            "  machine and settings\n");
}

TEST(RunComparisonText, AResumeThatChangedSettingsIsReported) {
  RunComparison comparison;
  comparison.resumes = {
      {"a", "2026-11-28T18:00:00+0000", 1200, true, {"config.beta", "recipe.lua:12"}},
      {"b", "2026-11-28T19:00:00+0000", -1, false, {"config.steps"}}};
  EXPECT_NE(text_of(comparison)
                .find("history\n"
                      "  a was resumed with --force at step 1,200 (2026-11-28T18:00:00+0000); "
                      "changed: config.beta, recipe.lua:12\n"
                      "  b was resumed (2026-11-28T19:00:00+0000); changed: "
                      "config.steps\nmachine"),
            std::string::npos)
      << text_of(comparison);
}

// Two runs whose metrics differ in names alone have no last values to show.
TEST(RunComparisonText, AnEmptySectionHasNoHeader) {
  RunComparison comparison;
  comparison.name_a = "a";
  comparison.name_b = "b";
  comparison.only_a = {"valid/loss"};
  EXPECT_NE(text_of(comparison).find("results\n  only a logged valid/loss\nmachine"),
            std::string::npos)
      << text_of(comparison);
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
}  // namespace xrun::run_comparison_text_test
