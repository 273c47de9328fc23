#include "core/data/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/data/row_selection.h"
#include "tests/core/data/scratch_folder.h"

namespace xrun {
namespace {

TEST(Split, CountsAsTheReferenceDoes) {
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
  EXPECT_EQ(error_of([] { held_out_count(10, 1.0); }),
            "valid.fraction is 1, wanted a number from 0 to below 1");
  EXPECT_NE(error_of([] { held_out_count(10, -0.1); }), "");
  EXPECT_NE(error_of([] { held_out_count(10, std::nan("")); }), "");
}

TEST(Split, ByRowTakesTheLastRowsOfEachSource) {
  RowSelection all;
  all.parts = {{0, 10, {}, false}, {0, 5, {}, false}};
  const auto [train, valid] = all.split_last(0.2);
  EXPECT_EQ(train.size(), 12);
  EXPECT_EQ(valid.parts[0].at(0), 8);
  EXPECT_EQ(valid.parts[1].at(0), 4);
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

TEST(Split, ByPromptTakesTheSmallestWhereAllAreTooLarge) {
  const std::vector<uint64_t> prompts = {1, 1, 1, 2, 2, 3, 3, 3, 3};
  EXPECT_EQ(hold_out_prompts(prompts, 0.1), (std::vector<uint8_t>{0, 0, 0, 1, 1, 0, 0, 0, 0}));
}

TEST(Split, ByPromptRefusesASetOfOnePrompt) {
  const std::vector<uint64_t> prompts(5, 9);
  EXPECT_NE(error_of([&] { hold_out_prompts(prompts, 0.5); }).find("all 5 rows share one prompt"),
            std::string::npos);
  EXPECT_EQ(hold_out_prompts(prompts, 0), std::vector<uint8_t>(5, 0));
}

}  // namespace
}  // namespace xrun
