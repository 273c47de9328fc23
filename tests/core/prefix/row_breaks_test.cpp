// The report of rows that look alike names the first token that breaks their prefix, and the cause.

#include "core/prefix/row_breaks.h"

#include <gtest/gtest.h>

#include <numeric>

namespace xrun::row_breaks_test {
namespace {

using Ids = std::vector<int32_t>;

Ids counted_from(int32_t first, size_t count) {
  Ids ids(count);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

Ids joined(std::initializer_list<Ids> parts) {
  Ids out;
  for (const Ids& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

std::vector<RowBreak> breaks_of(const std::vector<Ids>& lists, int64_t min_run,
                                const std::vector<int64_t>& classes = {}) {
  std::vector<ComparedRow> rows;
  for (const Ids& ids : lists) {
    ComparedRow row;
    row.tokens = ids;
    row.trained.assign(ids.size(), 1);
    if (!classes.empty()) row.frequency_class = classes[rows.size()];
    rows.push_back(row);
  }
  return find_row_breaks(rows, min_run);
}

TEST(RowBreaks, ADifferentTokenBetweenEqualOnesIsATextBreak) {
  const Ids head = counted_from(100, 10), rest = counted_from(200, 40);
  const auto breaks = breaks_of({joined({head, {7, 8}, rest}), joined({head, {9}, rest})}, 32);
  ASSERT_EQ(breaks.size(), 1u);
  EXPECT_EQ(breaks[0].cause, BreakCause::kText);
  EXPECT_EQ(breaks[0].at.position, 10);
  EXPECT_EQ(breaks[0].at.token_a, 7);
  EXPECT_EQ(breaks[0].at.token_b, 9);
  EXPECT_EQ(breaks[0].differing_a, 2);
  EXPECT_EQ(breaks[0].differing_b, 1);
  EXPECT_EQ(breaks[0].equal_after, 40);
}

TEST(RowBreaks, AnInsertedFirstTokenIsATextBreak) {
  const Ids rest = counted_from(200, 40);
  const auto breaks = breaks_of({joined({{1}, rest}), rest}, 32);
  ASSERT_EQ(breaks.size(), 1u);
  EXPECT_EQ(breaks[0].at.position, 0);
  EXPECT_EQ(breaks[0].differing_a, 1);
  EXPECT_EQ(breaks[0].differing_b, 0);
}

TEST(RowBreaks, ADifferenceThatManyRowsHaveIsFoundOnce) {
  const Ids head = counted_from(100, 10), rest = counted_from(200, 40);
  std::vector<Ids> lists;
  for (int32_t i = 0; i < 6; ++i) {
    lists.push_back(joined({head, {i % 2}, rest, counted_from(1000 * (i + 1), 5)}));
  }
  EXPECT_EQ(breaks_of(lists, 32).size(), 1u);
}

TEST(RowBreaks, ARowIsComparedWithAllSiblingsBeforeIt) {
  const Ids head = counted_from(100, 10), rest = counted_from(200, 40);
  const auto breaks =
      breaks_of({joined({head, {1}, rest}), joined({head, {2}, counted_from(900, 30)}),
                 joined({head, {3}, rest})},
                32);
  ASSERT_EQ(breaks.size(), 1u);
  EXPECT_EQ(breaks[0].a, 0u);
  EXPECT_EQ(breaks[0].b, 2u);
}

TEST(RowBreaks, TrainedTokensOfConversationsMayDiffer) {
  const Ids head = counted_from(100, 10), rest = counted_from(200, 40);
  const Ids a = joined({head, {7}, rest}), b = joined({head, {9}, rest});
  const RowTrace::Stream trace;
  ComparedRow one{.tokens = a, .trained = std::vector<uint8_t>(a.size(), 1), .trace = &trace};
  ComparedRow other = one;
  other.tokens = b;
  EXPECT_TRUE(find_row_breaks(std::vector{one, other}, 32).empty());
  other.trained[10] = 0;
  EXPECT_EQ(find_row_breaks(std::vector{one, other}, 32).size(), 1u);
}

TEST(RowBreaks, APrefixBelowTheShortestRunIsShort) {
  const Ids head = counted_from(100, 20);
  const std::vector<Ids> lists = {joined({head, counted_from(1000, 15)}),
                                  joined({head, counted_from(2000, 60)})};
  const auto breaks = breaks_of(lists, 32);
  ASSERT_EQ(breaks.size(), 1u);
  EXPECT_EQ(breaks[0].cause, BreakCause::kShort);
  EXPECT_TRUE(breaks_of(lists, 20).empty());
}

TEST(RowBreaks, RowsThatAreFoldedWithOthersAreNotShort) {
  const Ids head = counted_from(100, 20), a = counted_from(300, 19), b = counted_from(400, 19);
  EXPECT_TRUE(breaks_of({joined({head, a, {1}}), joined({head, a, {2}}), joined({head, b, {1}}),
                         joined({head, b, {2}})},
                        32)
                  .empty());
}

TEST(RowBreaks, OtherFrequenciesKeepRowsApart) {
  const Ids head = counted_from(100, 40);
  const std::vector<Ids> lists = {joined({head, {1}}), joined({head, counted_from(500, 9)})};
  const auto breaks = breaks_of(lists, 32, {0, 1});
  ASSERT_EQ(breaks.size(), 1u);
  EXPECT_EQ(breaks[0].cause, BreakCause::kFrequencies);
  EXPECT_TRUE(breaks_of(lists, 32, {1, 1}).empty());
}

// A range of a message ends where the shorter conversation stopped rendering it as before; its
// generation block extends to byte 40.
TEST(RowBreaks, AMessageGoesOnToTheEndOfItsGenerationBlock) {
  const Ids head = counted_from(100, 30);
  const Ids a = joined({head, counted_from(300, 30)}), b = joined({head, counted_from(400, 30)});
  RowTrace::Stream trace;
  for (uint32_t byte = 0; byte < a.size(); ++byte) trace.offsets.push_back({byte, byte + 1});
  trace.inputs = {"{}", "a question", "an answer"};
  trace.messages = {{0, "user", {0, 20}}, {1, "assistant", {20, 30}}};
  const auto break_of = [&] {
    ComparedRow one{.tokens = a, .trained = std::vector<uint8_t>(a.size(), 1), .trace = &trace};
    ComparedRow other = one;
    other.tokens = b;
    return find_row_breaks(std::vector{one, other}, 64);
  };
  ASSERT_EQ(break_of().size(), 1u);
  EXPECT_EQ(break_of()[0].cause, BreakCause::kShort);
  trace.rendering.turns = {{20, 40}};
  trace.rendering.turn_messages = {1};
  ASSERT_EQ(break_of().size(), 1u);
  EXPECT_EQ(break_of()[0].cause, BreakCause::kTemplate);
  EXPECT_EQ(break_of()[0].equal_messages, 2);
}

TEST(RowBreaks, UnrelatedEqualAndEmptyRowsHaveNone) {
  const Ids marks = counted_from(1, 5);
  const std::vector<Ids> lists = {joined({marks, counted_from(100, 30), marks}),
                                  joined({marks, counted_from(200, 8), marks}),
                                  joined({marks, counted_from(200, 8), marks}), Ids()};
  EXPECT_TRUE(breaks_of(lists, 8).empty());
}

TEST(PrefixBreak, NamesPositionAndBothTokens) {
  const auto broken = [](const Ids& a, const Ids& b) {
    const PrefixBreak found = prefix_break(a, b);
    return std::vector<int64_t>{found.position, found.token_a, found.token_b};
  };
  EXPECT_EQ(broken({1, 2, 3, 4}, {1, 2, 9, 4}), (std::vector<int64_t>{2, 3, 9}));
  EXPECT_EQ(broken({1, 2}, {1, 2, 9}), (std::vector<int64_t>{2, -1, 9}));
  EXPECT_EQ(broken({1, 2}, {1, 2}), (std::vector<int64_t>{2, -1, -1}));
  EXPECT_EQ(broken({}, {5}), (std::vector<int64_t>{0, -1, 5}));
}

}  // namespace
}  // namespace xrun::row_breaks_test
