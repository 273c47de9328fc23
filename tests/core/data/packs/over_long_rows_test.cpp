// Rows above max_length raise an error, are dropped or are cut, as over_length says.

#include "core/data/packs/data_source.h"
#include "core/data/rows/conversation_tokens.h"
#include "tests/core/data/rows/pair_fixture.h"

namespace xrun::over_long_rows_test {
namespace {

using DataSources = PairFixture;

TEST_F(DataSources, OverLongRowsRaiseDropOrAreCut) {
  DataOptions some =
      options(pair_row("q", "yes", "no") + pair_row("q", std::string(100, 'y'), "no"));
  some.settings.max_length = 60;
  EXPECT_NE(error_of([&] { open(some); }).find("pairs.jsonl:2: the chosen side has 122 tokens"),
            std::string::npos);
  some.settings.over_length = OverLength::kDrop;
  EXPECT_EQ(open(some).ledger().sources[0].dropped.at("too_long"), 1);
  some.settings.over_length = OverLength::kCut;
  const DataSet cut = open(some);
  const SourceLedger& ledger = cut.ledger().sources[0];
  EXPECT_EQ(ledger.cut_tokens, 62);
  ASSERT_EQ(ledger.cut_at.size(), 1u);
  EXPECT_TRUE(ledger.location(ledger.cut_at[0].at).ends_with("pairs.jsonl:2"));
  EXPECT_EQ(ledger.cut_at[0].tokens - ledger.cut_at[0].cut_tokens,
            60 + std::ssize(cut.stream(1, 1).ids));
  EXPECT_EQ(ledger.cut_kept, std::string(12, 'y'));
  EXPECT_EQ(ledger.cut_lost, std::string(12, 'y'));
  EXPECT_EQ(std::ssize(cut.stream(1, kChosen).ids), 60);
}

TEST_F(DataSources, TheErrorOfALongRowCountsTheLongRowsReadWithIt) {
  const std::string fits = pair_row("q", "yes", "no");
  const std::string longer = pair_row("q", std::string(100, 'y'), "no");
  const auto error = [&](const std::string& rows) {
    DataOptions raise = options(rows);
    raise.settings.max_length = 60;
    return error_of([&] { open(raise); });
  };
  const std::string many = error(fits + longer + fits + longer + longer + fits);
  EXPECT_NE(many.find("pairs.jsonl:2: the chosen side has 122 tokens"), std::string::npos) << many;
  EXPECT_NE(many.find("; 3 rows up to line 6 are too long\n"), std::string::npos) << many;
  EXPECT_NE(error(longer + fits).find("; no other row up to line 2 is too long\n"),
            std::string::npos);
  EXPECT_EQ(error(fits + longer).find("up to line"), std::string::npos) << "nothing was counted";
}

TEST_F(DataSources, AMaxLengthThatDropsEveryRowIsRefusedWithTheLongest) {
  DataOptions some = options(pair_row("q", std::string(100, 'y'), "no") +
                             pair_row("q", std::string(80, 'y'), "no"));
  some.settings.max_length = 60;
  some.settings.over_length = OverLength::kDrop;
  const std::string message = error_of([&] { open(some); });
  EXPECT_NE(message.find("none of its 2 rows can be used; the longest has 122 tokens"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("--set max_length=122"), std::string::npos) << message;
  // From the finished cache too.
  EXPECT_EQ(error_of([&] { open(some); }), message);
  some.settings.model_length = 100;
  EXPECT_EQ(error_of([&] { open(some); }).find("max_length=122"), std::string::npos);
  some.settings.model_length = 0;
  some.settings.max_length = 122;
  EXPECT_EQ(open(some).size(), 2);
}

TEST_F(DataSources, ARowWhosePromptFillsMaxLengthIsDroppedByACut) {
  DataOptions some =
      options(pair_row("q", "yes", "no") + pair_row(std::string(100, 'q'), "yes", "no") +
              pair_row("q", "yes", "no, not"));
  some.settings.max_length = 60;
  some.settings.over_length = OverLength::kCut;
  some.max_bad = 0;  // rows that over_length leaves out are not bad
  const DataSet set = open(some);
  EXPECT_EQ(set.size(), 2);
  EXPECT_EQ(set.ledger().sources[0].dropped.at("no_answer_left"), 1);
}

// Above the limit of the renderer the number of tokens is unknown, and over_length still applies.
TEST_F(DataSources, SlowRowsThatCannotBeRenderedRaiseOrAreDropped) {
  const std::string long_answer(kMaxConversationBytes, 'y');
  DataOptions some = options(pair_row("q", "yes", "no") + pair_row("q", long_answer, "no"));
  const std::string message = error_of([&] { open(some); });
  EXPECT_NE(message.find("pairs.jsonl:2: the conversation and its tools have 25,165,838 bytes of "
                         "text, at most 25,165,824 are rendered\n  row  {\"prompt\":\"q\""),
            std::string::npos)
      << message;
  EXPECT_TRUE(
      message.ends_with("\n  continue with\n    --set over_length=drop  leave such rows out; "
                        "with it xrun check counts them"))
      << message;
  some.settings.over_length = OverLength::kDrop;
  EXPECT_EQ(open(some).ledger().sources[0].dropped.at("too_long"), 1);
  some.settings.over_length = OverLength::kCut;
  EXPECT_EQ(open(some).ledger().sources[0].dropped.at("too_long"), 1) << "it cannot be cut";
}

}  // namespace
}  // namespace xrun::over_long_rows_test
