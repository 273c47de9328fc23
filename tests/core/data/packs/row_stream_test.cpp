// A stream draws the rows of its sources in the stated order and ends where `stop` or the quotas
// say.

#include "core/data/packs/row_stream.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/scratch_folder.h"

namespace xrun::row_stream_test {
namespace {

std::vector<int64_t> rows_of(const RowStream& stream, int64_t begin, int64_t end) {
  std::vector<int64_t> rows;
  for (int64_t i = begin; i < end; ++i) rows.push_back(stream.at(i).row);
  return rows;
}

TEST(RowStream, EachEpochOfOneSourceHoldsEveryRowInAnotherOrder) {
  for (const RowOrder& order : {RowOrder{}, RowOrder{RowOrderKind::kBlock, 2, 2}}) {
    const RowStream stream(RowStream::Plan{
        .sources = {{20, 1}}, .stages = {}, .epochs = 2, .seed = 3, .order = order});
    ASSERT_EQ(stream.length(), 40);
    const std::vector<int64_t> first = rows_of(stream, 0, 20);
    const std::vector<int64_t> second = rows_of(stream, 20, 40);
    EXPECT_EQ(std::set<int64_t>(first.begin(), first.end()).size(), 20u);
    EXPECT_EQ(std::set<int64_t>(second.begin(), second.end()).size(), 20u);
    EXPECT_NE(first, second);
  }
}

TEST(RowStream, WithoutShuffleRowsComeInFileOrder) {
  const RowStream stream({{3, 1}}, MixtureStop::kAll, 3, false, 2);
  EXPECT_EQ(rows_of(stream, 0, 6), (std::vector<int64_t>{0, 1, 2, 0, 1, 2}));
}

TEST(RowStream, ASourceOfWeightZeroOrWithoutRowsIsNeverDrawn) {
  const RowStream stream({{4, 0}, {3, 2}, {0, 1}}, MixtureStop::kAll, 0, false, 1);
  EXPECT_EQ(stream.length(), 3);
  EXPECT_EQ(stream.at(2).source, 1);
}

TEST(RowStream, StopsWithTheFirstOrTheLastSourceOrNever) {
  const std::vector<RowStream::StreamSource> sources = {{100, 1}, {1000, 1}};
  const auto length = [&](MixtureStop stop) {
    return RowStream(sources, stop, 1, true, 1).length();
  };
  EXPECT_FALSE(length(MixtureStop::kRestart).has_value());
  EXPECT_NEAR(*length(MixtureStop::kFirst), 200, 40);
  EXPECT_NEAR(*length(MixtureStop::kAll), 2000, 100);
  const RowStream all(sources, MixtureStop::kAll, 1, true, 1);
  std::set<int64_t> rows;
  for (int64_t i = 0; i < *all.length(); ++i) {
    if (all.at(i).source == 1) rows.insert(all.at(i).row);
  }
  EXPECT_EQ(rows.size(), 1000u);
  EXPECT_EQ(all.at(*all.length() - 1).source, 1);  // it ends with the row that used it up
}

TEST(RowStream, WithoutShuffleSmallSourcesTakeTurnsInFileOrder) {
  const RowStream stream({{3, 1}, {6, 2}}, MixtureStop::kAll, 0, false, 1);
  ASSERT_EQ(stream.length(), 9);
  std::string seen;
  for (int64_t i = 0; i < 9; ++i) {
    seen += fmt::format("{}{} ", stream.at(i).source == 0 ? "a" : "b", stream.at(i).row);
  }
  EXPECT_EQ(seen, "b0 a0 b1 b2 a1 b3 b4 a2 b5 ");
}

// Two sources of 5 and 40 rows, one row per step; from row 20 on the second alone.
RowStream::Plan staged(MixtureStop stop) {
  return {.sources = {{5, 1}, {40, 1}},
          .stop = stop,
          .stages = {{0, {1, 1}}, {20, {0, 1}}},
          .seed = 1,
          .order = {.kind = RowOrderKind::kFile}};
}

TEST(RowStream, NoRowIsRepeatedBeforeEveryRowOfItsSourceWasDrawn) {
  const std::vector<RowStream::StreamSource> small = {{10, 1.0}, {6, 1.0}, {150, 3.0}};
  const RowStream stream(small, MixtureStop::kRestart, 5, true, 1);
  std::vector<std::vector<int64_t>> rows(3);
  for (int64_t i = 0; i < 6000; ++i) {
    const RowStream::DrawnRow drawn = stream.at(i);
    rows[static_cast<size_t>(drawn.source)].push_back(drawn.row);
  }
  for (size_t s = 0; s < 3; ++s) {
    const size_t size = static_cast<size_t>(small[s].rows);
    for (size_t epoch = 0; (epoch + 1) * size <= rows[s].size(); ++epoch) {
      const auto begin = rows[s].begin() + static_cast<std::ptrdiff_t>(epoch * size);
      ASSERT_EQ(std::set<int64_t>(begin, begin + static_cast<std::ptrdiff_t>(size)).size(), size);
    }
  }
}

TEST(RowStream, AnEpochOfSmallSourcesIsAboutAsLongAsTheyAre) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const RowStream all({{100, 1.0}, {100, 1.0}}, MixtureStop::kAll, seed, true, 1);
    EXPECT_LT(*all.length(), 260);
    const RowStream first({{100, 1.0}, {1000, 1.0}}, MixtureStop::kFirst, seed, true, 1);
    EXPECT_LT(*first.length(), 260);
    EXPECT_GE(*first.length(), 150);
  }
}

TEST(RowStream, StopsByTheDrawsOfAllStages) {
  EXPECT_EQ(RowStream(staged(MixtureStop::kFirst)).length(), 9);
  EXPECT_EQ(RowStream(staged(MixtureStop::kAll)).length(), 20 + 30);
  EXPECT_EQ(RowStream(staged(MixtureStop::kAll)).at(49).row, 39);
  const RowStream restart(staged(MixtureStop::kRestart));
  EXPECT_FALSE(restart.length().has_value());
  EXPECT_EQ(restart.endless_reason(), "mixture.stop is \"restart\"");
}

TEST(RowStream, NamesTheSourceThatNeverEndsUnderAll) {
  RowStream::Plan plan = staged(MixtureStop::kAll);
  plan.epochs = 3;
  const RowStream stream(plan);
  EXPECT_FALSE(stream.length().has_value());
  EXPECT_EQ(stream.endless_reason(),
            "mixture.stop is \"all\", and data[1] is never used up: its weight ends at 0 when 10 "
            "of 15 rows are drawn");
  EXPECT_EQ(stream.at(1000).source, 1);  // it has rows all the same, for a number of steps
}

TEST(RowStream, NamesASourceThatNoStageDraws) {
  RowStream::Plan plan = staged(MixtureStop::kAll);
  plan.stages = {{0, {0, 1}}, {3, {0, 2}}};
  EXPECT_EQ(error_of([&] { RowStream{plan}; }),
            "data[1] has weight 0 in every stage of mixture.stages, so it is never drawn; give it "
            "a weight, or take it out of data");
}

TEST(RowStream, NamesAStageWhoseSourcesHaveNoRows) {
  RowStream::Plan plan = staged(MixtureStop::kAll);
  plan.sources.push_back({0, 1});
  plan.stages = {{0, {1, 1, 1}}, {3, {0, 0, 2}}};
  EXPECT_EQ(error_of([&] { RowStream{plan}; }),
            "mixture.stages[2] gives weights above 0 only to sources without rows");
}

TEST(RowStream, RefusesMoreEpochsThanCanBeCounted) {
  EXPECT_EQ(error_of([] {
              RowStream({{10, 1}}, MixtureStop::kAll, 0, true, int64_t{1} << 60);
            }),
            "epochs is 1152921504606846976, more than 2^62 rows of data[1]");
}

// A quota in tokens counts whole rows in the order of their epochs.
TEST(RowStream, AQuotaInTokensEndsWithTheRowThatReachesIt) {
  for (const int64_t tokens : {1, 54, 55, 56, 200}) {
    RowStream::Plan plan;
    plan.sources.resize(2);
    plan.sources[0] = {
        .rows = 10, .quota_tokens = tokens, .tokens = [](int64_t row) { return row + 1; }};
    plan.sources[1] = {.rows = 1000};
    plan.epochs = 0;
    plan.seed = 3;
    const RowStream stream(plan);
    int64_t sum = 0, last = 0, rows = 0;
    for (int64_t i = 0; i < 5000; ++i) {
      const RowStream::DrawnRow drawn = stream.at(i);
      if (drawn.source != 0) continue;
      ++rows;
      sum += last = drawn.row + 1;
    }
    EXPECT_GE(sum, tokens);
    EXPECT_LT(sum - last, tokens);
    EXPECT_EQ(stream.mixture_plan().at("quotas").as_array()[0].as_int(), rows);
    EXPECT_TRUE(stream.mixture_plan().at("quotas").as_array()[1].is_null());
  }
}

TEST(RowStream, EndsWhenAllQuotasAreMetWhateverStopSays) {
  for (const MixtureStop stop : {MixtureStop::kRestart, MixtureStop::kAll, MixtureStop::kFirst}) {
    RowStream::Plan plan;
    plan.sources = {{.rows = 10, .quota = 25}, {.rows = 4, .quota = 25}};
    plan.stop = stop;
    plan.epochs = 0;
    const RowStream stream(plan);
    ASSERT_TRUE(stream.length());
    if (stop == MixtureStop::kFirst) {
      EXPECT_LT(*stream.length(), 50);
    } else {
      EXPECT_EQ(*stream.length(), 50);
    }
  }
  RowStream::Plan alone;
  alone.sources = {{.rows = 10, .quota = 25}};
  EXPECT_EQ(RowStream(alone).length(), 25);
  alone.sources[0].quota = -1;
  EXPECT_TRUE(RowStream(alone).mixture_plan().is_null());
}

}  // namespace
}  // namespace xrun::row_stream_test
