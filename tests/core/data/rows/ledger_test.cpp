// The ledger accounts for every row: rows read equal rows kept plus rows dropped by reason.

#include "core/data/rows/ledger.h"

#include <gtest/gtest.h>

#include "tests/scratch_folder.h"

namespace xrun::ledger_test {
namespace {

SourceLedger some_ledger() {
  SourceLedger ledger;
  ledger.name = "pairs";
  ledger.files = {"a.jsonl", "b.jsonl"};
  ledger.lines = 12;
  ledger.rows = 10;
  ledger.kept = 8;
  ledger.tokens = 12345;
  ledger.cut_row({{1, 9}, 5077, 77}, "kept\ntext", "lost");
  ledger.repair({0, 4}, 3);
  ledger.repair({1, 5}, 1);
  ledger.drop({1, 17}, "empty_answer", "the chosen side's last turn has no content");
  ledger.drop({0, 3}, "no_prompt", "none");
  ledger.note("the column \"score\" is not used", {0, 6});
  ledger.note("the column \"score\" is not used", {1, 2});
  return ledger;
}

TEST(Ledger, RowsEqualKeptPlusDropped) {
  Ledger ledger;
  ledger.sources = {some_ledger()};
  EXPECT_EQ(error_of([&] { ledger.check_sums(); }), "");
  ++ledger.sources[0].kept;
  EXPECT_EQ(error_of([&] { ledger.check_sums(); }),
            "pairs: the ledger does not add up: 10 rows in, 9 kept, 2 dropped");
}

TEST(Ledger, ReadsBackFromItsJson) {
  const SourceLedger ledger = some_ledger();
  const Json json = ledger.to_json();
  EXPECT_EQ(dump_json(SourceLedger::from_json(parse_json(dump_json(json), "")).to_json()),
            dump_json(json));
  EXPECT_EQ(json.at("bad").size(), 2u);
  EXPECT_EQ(json.at("dropped").at("no_prompt").as_int(), 1);
}

TEST(Ledger, ACutNamesTheSidesThatLostTokens) {
  SourceLedger ledger = some_ledger();
  ledger.cut_row({{0, 2}, 198, 34, "34 of 134 tokens of the rejected side"}, "", "");
  const SourceLedger read = SourceLedger::from_json(parse_json(dump_json(ledger.to_json()), ""));
  ASSERT_EQ(read.cut_lines(9).size(), 2u);
  EXPECT_EQ(read.cut_lines(9)[1], "a.jsonl:2  cut: 34 of 134 tokens of the rejected side removed");
}

TEST(Ledger, TheTextNamesFileLineAndReason) {
  Ledger ledger;
  ledger.sources = {some_ledger()};
  EXPECT_EQ(ledger.text(),
            "pairs: 10 rows = 8 kept + 2 dropped; 12,345 tokens, 0 trained; 1 row cut by 77 "
            "tokens; invalid UTF-8 repaired in 2 rows\n"
            "  dropped 1 row: empty_answer\n"
            "  dropped 1 row: no_prompt\n"
            "  note: the column \"score\" is not used (2 rows: a.jsonl:6, b.jsonl:2)\n"
            "  b.jsonl:17  empty_answer: the chosen side's last turn has no content\n"
            "  a.jsonl:3  no_prompt: none\n"
            "  b.jsonl:9  cut: 77 of the row's 5,077 tokens removed\n"
            "    kept  ...kept⏎text\n"
            "    lost  lost...\n"
            "  a.jsonl:4  repaired: invalid UTF-8\n"
            "  b.jsonl:5  repaired: invalid UTF-8\n");
}

TEST(Ledger, ANoteOnSomeRowsNamesTheFirst) {
  SourceLedger ledger;
  ledger.files = {"a.jsonl"};
  ledger.kept = 7;
  for (int64_t line = 1; line <= 5; ++line) ledger.note("some", {0, line});
  for (int64_t line = 1; line <= 7; ++line) ledger.note("all", {0, line});
  const SourceLedger read = SourceLedger::from_json(parse_json(dump_json(ledger.to_json()), ""));
  EXPECT_EQ(read.noted_rows("some"), "5 rows: a.jsonl:1, a.jsonl:2, a.jsonl:3, ...");
  EXPECT_EQ(read.noted_rows("all"), "7 rows");
}

TEST(Ledger, TheListOfBadRowsIsBounded) {
  SourceLedger ledger;
  for (int64_t i = 0; i < 5000; ++i) ledger.drop({0, i + 1}, "x", std::string(10'000, 'y'));
  EXPECT_EQ(ledger.dropped_total(), 5000);
  EXPECT_EQ(ledger.bad.size(), SourceLedger::kListedRows);
  EXPECT_LT(dump_json(ledger.to_json()).size(), 1'000'000u);
  for (int64_t i = 0; i < 5000; ++i) ledger.note(std::to_string(i), {0, i});
  EXPECT_EQ(ledger.notes.size(), 100u);
  EXPECT_EQ(ledger.more_notes, 4900);
  Ledger one;
  one.sources = {ledger};
  EXPECT_NE(one.text().find("  note: further notes, not listed (4,900 rows)\n"), std::string::npos);
}

TEST(Ledger, ALoneSurrogateEscapeIsNotInvalidUtf8) {
  SourceLedger ledger = some_ledger();
  ledger.repair({0, 7}, 2, /*is_utf8=*/true);
  Ledger one;
  one.sources = {SourceLedger::from_json(parse_json(dump_json(ledger.to_json()), ""))};
  EXPECT_EQ(one.sources[0].repaired, 3);
  const std::string text = one.text();
  EXPECT_NE(text.find("; invalid UTF-8 repaired in 2 rows; a lone surrogate escape repaired in 1 "
                      "row\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("  a.jsonl:7  repaired: a lone surrogate escape\n"), std::string::npos)
      << text;
}

TEST(Ledger, EveryReasonIsListedWithItsFirstRow) {
  SourceLedger ledger;
  ledger.files = {"a.jsonl"};
  for (int64_t line = 1; line <= 2000; ++line) ledger.drop({0, line}, "x", std::to_string(line));
  ledger.drop({0, 2001}, "y", "late");
  ledger.drop({0, 2002}, "z", "later");
  const std::vector<std::string> firsts = {"a.jsonl:1  x: 1", "a.jsonl:2001  y: late",
                                           "a.jsonl:2002  z: later"};
  EXPECT_EQ(ledger.bad_lines(3), firsts);
  EXPECT_EQ(ledger.bad_lines(1), firsts);
  const std::vector<std::string> more = ledger.bad_lines(4);
  ASSERT_EQ(more.size(), 4u);
  EXPECT_EQ(more[3], "a.jsonl:2  x: 2");
}

TEST(Ledger, RowsThatLoseTheirCallsAreOfferedATemplateFirst) {
  SourceLedger ledger;
  ledger.name = "chats";
  ledger.files = {"tools.jsonl"};
  ledger.rows = 4;
  ledger.kept = 1;
  for (int64_t line = 1; line <= 3; ++line) ledger.drop({0, line}, "lost_tool_calls", "left out");
  const std::string lost = error_of([&] { check_kept(ledger, 0.5); });
  EXPECT_TRUE(
      lost.starts_with("chats (tools.jsonl): 3 of 4 rows (75 %) are bad, max_bad allows "
                       "50 %\n"))
      << lost;
  EXPECT_LT(lost.find("--set template=qwen2.5 "), lost.find("--set laws.tool_calls=false "));
  EXPECT_NE(lost.find("--set max_bad=0.75 "), std::string::npos);
  ledger.dropped = {{"no_prompt", 3}};
  const std::string other = error_of([&] { check_kept(ledger, 0.5); });
  EXPECT_NE(other.find("; fix the rows or name their columns in `fields`"), std::string::npos);
  EXPECT_EQ(other.find("template="), std::string::npos);
}

TEST(Ledger, ALargerMaxBadIsNotOfferedForAllButAFewRows) {
  SourceLedger ledger;
  ledger.name = "pairs.jsonl";
  ledger.rows = 300;
  ledger.kept = 1;
  ledger.dropped = {{"missing_side", 299}};
  const std::string nearly_all = error_of([&] { check_kept(ledger, 0.5); });
  EXPECT_NE(nearly_all.find("; fix the rows or name their columns in `fields`"), std::string::npos)
      << nearly_all;
  EXPECT_EQ(nearly_all.find("--set"), std::string::npos) << nearly_all;
  ledger.kept = 100;
  ledger.dropped = {{"missing_side", 200}};
  const std::string most = error_of([&] { check_kept(ledger, 0.5); });
  EXPECT_TRUE(most.ends_with("--set max_bad=0.67  train on the other 100 rows")) << most;
}

// No template renders OpenAI's older key, so another template would not help.
TEST(Ledger, RowsThatLoseAnOlderFunctionCallAreOfferedNoTemplate) {
  SourceLedger ledger;
  ledger.files = {"tools.jsonl"};
  ledger.rows = 1;
  ledger.drop({0, 1}, "lost_tool_calls", "turn 2 calls a tool \"f\" by \"function_call\", and");
  const std::string lost = error_of([&] { check_kept(ledger, 0.5); });
  EXPECT_EQ(lost.find("--set template="), std::string::npos) << lost;
  EXPECT_NE(lost.find("--set laws.tool_calls=false "), std::string::npos) << lost;
}

TEST(Ledger, JoinsSourcesOfAnEarlierAccountByNameAndFiles) {
  const auto source = [](const char* name, int64_t rows) {
    SourceLedger one;
    one.name = name;
    one.files = {name};
    one.rows = one.kept = rows;
    return one;
  };
  const Ledger earlier{{source("a", 1), source("late", 2), source("a", 3)}};
  const Ledger now{{source("a", 10), source("b", 20)}};
  const Ledger joined = now.joined_to(Ledger::from_json(earlier.to_json()));
  std::string text;
  for (const SourceLedger& one : joined.sources) text += one.name + std::to_string(one.rows) + " ";
  EXPECT_EQ(text, "a10 late2 a3 b20 ");
}

}  // namespace
}  // namespace xrun::ledger_test
