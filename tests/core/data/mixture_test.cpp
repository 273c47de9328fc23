#include "core/data/mixture.h"

#include <gtest/gtest.h>

#include <set>

#include "core/data/row_stream.h"
#include "tests/core/data/scratch_folder.h"

namespace xrun {
namespace {

// Three sources of five rows (1 to 5, 10 to 50, 100 to 500), weights .5 .3 .2, blocks of ten, in
// order: the figures are those of Levanter's test_mixture.
TEST(Mixture, UnshuffledBlocksGiveTheReferencesLengths) {
  const Mixture mixture({0.5, 0.3, 0.2}, 0, false, 10);
  EXPECT_EQ(mixture.length_for(0, 5), 5);   // first_exhausted
  EXPECT_EQ(mixture.length_for(2, 5), 29);  // all_exhausted
  EXPECT_EQ(mixture(10).source, 0);
  EXPECT_EQ(mixture(10).draw % 5, 0);  // item 10 is 1
  EXPECT_EQ(mixture(28).source, 2);
  EXPECT_EQ(mixture(28).draw % 5, 4);  // item 28 is 500
}

TEST(Mixture, EveryBlockHoldsItsShareOfEverySource) {
  const Mixture mixture({1, 3}, 7, true);
  for (int64_t block = 0; block < 3; ++block) {
    std::set<int64_t> draws[2];
    for (int64_t i = 0; i < Mixture::kBlock; ++i) {
      const Mixture::Draw draw = mixture(block * Mixture::kBlock + i);
      draws[draw.source].insert(draw.draw);
    }
    EXPECT_EQ(draws[0].size(), 512u);
    EXPECT_EQ(draws[1].size(), 1536u);
    EXPECT_EQ(*draws[0].begin(), block * 512);
    EXPECT_EQ(*draws[1].rbegin(), (block + 1) * 1536 - 1);
  }
}

TEST(Mixture, TheStreamOfALengthHoldsTheDrawsAskedFor) {
  const Mixture mixture({1, 3}, 7, true);
  const int64_t length = mixture.length_for(0, 700);
  std::set<int64_t> draws;
  for (int64_t i = 0; i < length; ++i) {
    if (mixture(i).source == 0 && mixture(i).draw < 700) draws.insert(mixture(i).draw);
  }
  EXPECT_EQ(draws.size(), 700u);
  EXPECT_EQ(mixture(length - 1).source, 0);
  EXPECT_LT(mixture(length - 1).draw, 700);
}

TEST(Mixture, NamesAWeightThatIsNeverDrawn) {
  EXPECT_NE(error_of([] {
              Mixture({1, 1e-5}, 0, true);
            }).find("data[2].weight is 1e-05"),
            std::string::npos);
  EXPECT_NE(error_of([] { Mixture({0, 0}, 0, true); }), "");
  EXPECT_NE(error_of([] { Mixture({1, -1}, 0, true); }), "");
}

std::vector<int64_t> rows_of(const RowStream& stream, int64_t begin, int64_t end) {
  std::vector<int64_t> rows;
  for (int64_t i = begin; i < end; ++i) rows.push_back(stream.at(i).row);
  return rows;
}

TEST(RowStream, EachEpochOfOneSourceHoldsEveryRowInAnotherOrder) {
  const RowStream stream({{10, 1}}, MixtureStop::kAll, 3, true, 2);
  ASSERT_EQ(stream.length(), 20);
  const std::vector<int64_t> first = rows_of(stream, 0, 10);
  const std::vector<int64_t> second = rows_of(stream, 10, 20);
  EXPECT_EQ(std::set<int64_t>(first.begin(), first.end()).size(), 10u);
  EXPECT_EQ(std::set<int64_t>(second.begin(), second.end()).size(), 10u);
  EXPECT_NE(first, second);
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
  const std::vector<RowStream::Source> sources = {{100, 1}, {1000, 1}};
  const auto length = [&](MixtureStop stop) {
    return RowStream(sources, stop, 1, true, 1).length();
  };
  EXPECT_FALSE(length(MixtureStop::kRestart).has_value());
  EXPECT_LT(*length(MixtureStop::kFirst), 2048);
  EXPECT_GE(*length(MixtureStop::kAll), 1000 + 900);
  const RowStream all(sources, MixtureStop::kAll, 1, true, 1);
  std::set<int64_t> rows;
  for (int64_t i = 0; i < *all.length(); ++i) {
    if (all.at(i).source == 1) rows.insert(all.at(i).row);
  }
  EXPECT_EQ(rows.size(), 1000u);
}

}  // namespace
}  // namespace xrun
