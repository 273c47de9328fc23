// A split holds out the requested share, and one by prompt never puts a prompt on both sides.

#include "core/data/packs/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "core/base/philox.h"
#include "tests/scratch_folder.h"

namespace xrun::split_test {
namespace {

TEST(Split, CountsLikeTheReference) {
  EXPECT_EQ(held_out_count(100, 0.1), 10);
  EXPECT_EQ(held_out_count(19, 0.1), 1);
  EXPECT_EQ(held_out_count(5, 0.1), 1);   // at least one
  EXPECT_EQ(held_out_count(2, 0.99), 1);  // at most n - 1
  EXPECT_EQ(held_out_count(10, 0.999), 9);
  EXPECT_EQ(held_out_count(1, 0.5), 0);
  EXPECT_EQ(held_out_count(0, 0.5), 0);
  EXPECT_EQ(held_out_count(100, 0), 0);
}

TEST(Split, RefusesAFractionOutsideItsRange) {
  for (const auto& [fraction, shown] : std::vector<std::pair<double, std::string>>{
           {1.0, "1"}, {-0.1, "-0.1"}, {std::nan(""), "nan"}}) {
    EXPECT_EQ(error_of([&] { held_out_count(10, fraction); }),
              "valid.fraction is " + shown + ", wanted a number of at least 0 and below 1");
  }
}

TEST(Split, ByRowTakesTheLastRowsOfEachSource) {
  RowSelection all;
  all.ranges = {{0, 10, {}, false}, {0, 5, {}, false}};
  const auto [train, valid] = all.split_last(0.2);
  EXPECT_EQ(train.size(), 12);
  EXPECT_EQ(valid.ranges[0].at(0), 8);
  EXPECT_EQ(valid.ranges[1].at(0), 4);
}

TEST(Split, ByPromptNeverPutsAPromptOnBothSides) {
  std::vector<uint64_t> prompts;
  for (uint64_t i = 0; i < 300; ++i) prompts.push_back((i * i) % 97);
  const std::vector<uint8_t> held_out = hold_out_prompts(prompts, 0.1);
  const int64_t rows = std::accumulate(held_out.begin(), held_out.end(), int64_t{0});
  EXPECT_GT(rows, 20);
  EXPECT_LE(rows, 30);
  for (size_t a = 0; a < prompts.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      if (prompts[a] != prompts[b]) continue;
      ASSERT_EQ(held_out[a], held_out[b]);
    }
  }
}

TEST(Split, ByPromptDependsOnThePromptsAlone) {
  std::vector<uint64_t> prompts(40);
  std::iota(prompts.begin(), prompts.end(), 1000);
  std::vector<uint64_t> reversed(prompts.rbegin(), prompts.rend());
  std::vector<uint8_t> backwards = hold_out_prompts(reversed, 0.25);
  std::reverse(backwards.begin(), backwards.end());
  EXPECT_EQ(hold_out_prompts(prompts, 0.25), backwards);
}

TEST(Split, ByPromptTakesTheSmallestIfAllAreTooLarge) {
  const std::vector<uint64_t> prompts = {1, 1, 1, 2, 2, 3, 3, 3, 3};
  EXPECT_EQ(hold_out_prompts(prompts, 0.1), (std::vector<uint8_t>{0, 0, 0, 1, 1, 0, 0, 0, 0}));
}

// The same by a table of prompts.
std::vector<uint8_t> plain_hold_out(const std::vector<uint64_t>& prompts, double fraction) {
  std::map<uint64_t, int64_t> rows_of;
  for (const uint64_t prompt : prompts) ++rows_of[prompt];
  std::map<uint64_t, uint64_t> in_order;  // hash of a prompt to the prompt
  for (const auto& [prompt, rows] : rows_of) {
    in_order[philox_u64(prompt, kStreamSplit, 0, 0)] = prompt;
  }
  std::set<uint64_t> taken;
  int64_t left = held_out_count(std::ssize(prompts), fraction);
  for (const auto& [hash, prompt] : in_order) {
    if (rows_of[prompt] > left) continue;
    left -= rows_of[prompt];
    taken.insert(prompt);
  }
  std::vector<uint8_t> held_out;
  for (const uint64_t prompt : prompts) held_out.push_back(taken.count(prompt) != 0);
  return held_out;
}

TEST(Split, ByPromptTakesPromptsInTheOrderOfTheirHash) {
  for (uint64_t round = 0; round < 100; ++round) {
    std::vector<uint64_t> prompts;
    for (uint64_t i = 0; i < 50 + round; ++i) prompts.push_back(philox_u64(round, 94, i, 0) % 60);
    const double fraction = 0.1 + 0.008 * static_cast<double>(round);
    ASSERT_EQ(hold_out_prompts(prompts, fraction), plain_hold_out(prompts, fraction)) << round;
  }
}

TEST(Split, ByPromptSplitsAMillionRowsQuickly) {
  std::vector<uint64_t> prompts;
  for (uint64_t i = 0; i < 1000000; ++i) prompts.push_back(philox_u64(1, 93, i / 3, 0));
  const std::vector<uint8_t> held_out = hold_out_prompts(prompts, 0.01);
  EXPECT_NEAR(std::accumulate(held_out.begin(), held_out.end(), 0), 10000, 2);
}

// Rows of listed parts, as a split of a split has them.
TEST(Split, FlagsFollowTheRowsOfEverySource) {
  RowSelection all;
  all.ranges = {{2, 5, {}, false}, {0, 0, {7, 9, 11}, true}, {4, 4, {}, false}};
  const auto [kept, held_out] = all.split_flagged(std::vector<uint8_t>{0, 1, 0, 1, 0, 1});
  EXPECT_EQ(kept.ranges[0].rows, (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(held_out.ranges[0].rows, (std::vector<int64_t>{3}));
  EXPECT_EQ(kept.ranges[1].rows, (std::vector<int64_t>{9}));
  EXPECT_EQ(held_out.ranges[1].rows, (std::vector<int64_t>{7, 11}));
  EXPECT_EQ(held_out.size(), 3);
  EXPECT_EQ(kept.ranges.size(), 3u);  // a source without rows keeps its index
  const auto [head, tail] = held_out.split_last(0.5);
  EXPECT_EQ(head.ranges[1].rows, (std::vector<int64_t>{7}));
  EXPECT_EQ(tail.ranges[1].rows, (std::vector<int64_t>{11}));
}

TEST(Split, ByPromptRefusesASetOfOnePrompt) {
  const std::vector<uint64_t> prompts(5, 9);
  EXPECT_NE(error_of([&] { hold_out_prompts(prompts, 0.5); }).find("all 5 rows share one prompt"),
            std::string::npos);
  EXPECT_EQ(hold_out_prompts(prompts, 0), std::vector<uint8_t>(5, 0));
}

}  // namespace
}  // namespace xrun::split_test
