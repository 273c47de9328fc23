// A source is refused, with the fix, for data, templates or vocabularies that cannot be trained.

#include "core/data/packs/data_source.h"

#include <set>

#include "core/data/rows/data_fault.h"
#include "tests/core/data/rows/pair_fixture.h"
#include "tests/tree.h"

namespace xrun::data_source_test {
namespace {

using DataSources = PairFixture;

TEST_F(DataSources, DifferentInputsHaveDifferentCaches) {
  const DataOptions base = options(numbered_pairs(5));
  std::set<std::string> prints = {open(base).fingerprint()};
  EXPECT_FALSE(prints.insert(open(base).fingerprint()).second);
  const auto is_new = [&](const DataOptions& changed) {
    return prints.insert(open(changed).fingerprint()).second;
  };
  DataOptions changed = base;
  changed.settings.max_length = 900;
  EXPECT_TRUE(is_new(changed));
  changed.settings.over_length = OverLength::kDrop;
  EXPECT_TRUE(is_new(changed));
  changed.settings.train_on = TrainOn::kAll;
  EXPECT_TRUE(is_new(changed));
  changed.sources[0].keep = {"score"};
  EXPECT_TRUE(is_new(changed));
  changed.settings.template_kwargs.set("x", 1);
  EXPECT_TRUE(is_new(changed));
  template_->set_source("another source");
  EXPECT_TRUE(is_new(changed));
  folder_.write("pairs.jsonl", numbered_pairs(6));
  EXPECT_TRUE(is_new(changed));
}

TEST_F(DataSources, StrictRefusesWhatWouldBeDropped) {
  DataOptions strict = options(pair_row("q", "yes", "no") + pair_row("q", "", "no"));
  EXPECT_EQ(error_of([&] { open(strict); }), "");
  strict.strict = true;
  const std::string message = error_of([&] { open(strict); });
  EXPECT_NE(message.find("of 2 rows 1 would be dropped"), std::string::npos) << message;
  EXPECT_NE(message.find("pairs.jsonl:2  empty_answer"), std::string::npos) << message;
}

TEST_F(DataSources, StrictListsCutAndRepairedRows) {
  DataOptions strict =
      options(pair_row("q", "yes", "no") + pair_row("q", std::string(100, 'y'), "no") +
              pair_row("q", "\xFF", "no"));
  strict.settings.max_length = 60;
  strict.settings.over_length = OverLength::kCut;
  EXPECT_EQ(error_of([&] { open(strict); }), "");
  strict.strict = true;
  const std::string message = error_of([&] { open(strict); });
  EXPECT_NE(message.find("of 3 rows 0 would be dropped, 1 cut, 1 repaired"), std::string::npos)
      << message;
  EXPECT_NE(message.find("pairs.jsonl:2  cut: 62 of 122 tokens of the chosen side removed"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("pairs.jsonl:3  repaired"), std::string::npos) << message;
}

TEST_F(DataSources, StrictIsReportedBeforeMaxBadAlsoForAFinishedCache) {
  DataOptions some = options(numbered_pairs(3) + pair_row("q", "", "no"));
  EXPECT_EQ(error_of([&] { open(some); }), "");
  some.strict = true;
  some.max_bad = 0.1;
  const std::string message = error_of([&] { open(some); });
  EXPECT_NE(message.find("and strict = true"), std::string::npos) << message;
  EXPECT_EQ(message.find("raise max_bad"), std::string::npos) << message;
}

TEST_F(DataSources, AnExtraColumnThatNoRowHasIsNotedWithTheNearest) {
  DataOptions some = options(pair_row("q", "yes", "no", ",\"score\":\"x\""));
  some.sources[0].keep = {"scroe", "score"};
  some.strict = true;  // no row is lost
  EXPECT_TRUE(open(some).ledger().sources[0].notes.contains(
      "extra column \"scroe\" is not there, did you mean \"score\"?"));
}

TEST_F(DataSources, ALargerShareOfBadRowsThanMaxBadIsRefused) {
  std::string rows =
      numbered_pairs(3) + pair_row("q", "", "no") + pair_row("q", std::string(99, 'y'), "n");
  DataOptions some = options(rows);
  some.settings.max_length = 60;
  some.settings.over_length = OverLength::kDrop;
  some.max_bad = 0.25;  // one of four: what is too long was asked to be left out
  EXPECT_EQ(error_of([&] { open(some); }), "");
  some.max_bad = 0.24;
  const std::string message = error_of([&] { open(some); });
  EXPECT_NE(message.find("1 of 4 rows (25 %) are bad"), std::string::npos) << message;
  EXPECT_NE(message.find("pairs.jsonl:4  empty_answer"), std::string::npos) << message;
}

TEST_F(DataSources, AFileOfAnotherEncodingIsRefused) {
  // "中国的首都是北京" in GBK.
  const std::string text = "\xD6\xD0\xB9\xFA\xB5\xC4\xCA\xD7\xB6\xBC\xCA\xC7\xB1\xB1\xBE\xA9";
  const DataOptions some = options(pair_row(text, "yes", "no") + pair_row("q", text, "no"));
  const std::string message = error_of([&] { open(some); });
  EXPECT_NE(message.find("2 of 2 rows are not UTF-8 and look like GB18030; convert the file: iconv "
                         "-f GB18030 -t UTF-8 "),
            std::string::npos)
      << message;
  EXPECT_EQ(message.find("max_bad"), std::string::npos) << message;
}

TEST_F(DataSources, AFileOfAnotherFormIsNamedWithTheFix) {
  const std::string row = pair_row("q", "yes", "no");
  EXPECT_NE(
      error_of([&] {
        open("[" + row + "," + row + "]\n");
      }).find("the file is one array of rows: name it " + (folder_.path() / "pairs.json").string()),
      std::string::npos);
  EXPECT_NE(error_of([&] {
              open("{\n  \"prompt\": \"q\",\n  \"chosen\": \"a\"\n}\n");
            }).find("its objects run over several lines, and a row is one line"),
            std::string::npos);
  EXPECT_EQ(error_of([&] { open(pair_row("q", "", "no")); }).find("; "), std::string::npos);
}

TEST_F(DataSources, ATranscriptIsNamed) {
  const std::string side = "\\n\\nHuman: hello\\n\\nAssistant: hi";
  EXPECT_NE(error_of([&] {
              open("{\"chosen\":\"" + side + "\",\"rejected\":\"" + side + "!\"}\n");
            }).find("it is a transcript (Human: ... Assistant: ...)"),
            std::string::npos);
}

TEST_F(DataSources, WholeNumbersAreKnownWithoutReadingRows) {
  DataOptions some = options(pair_row("q", "yes", "no", ",\"a\":1,\"b\":1,\"c\":\"x\"") +
                             pair_row("q", "yes", "no", ",\"a\":2.0,\"b\":1.5,\"c\":\"x\""));
  some.sources[0].keep = {"a", "b", "c"};
  for (int opening = 0; opening < 2; ++opening) {
    const DataSet set = open(some);
    ASSERT_EQ(set.extra_columns().size(), 3u);
    EXPECT_TRUE(set.extra_columns()[0].is_whole);
    EXPECT_FALSE(set.extra_columns()[1].is_whole);
    EXPECT_FALSE(set.extra_columns()[2].is_whole);
  }
}

TEST_F(DataSources, ASetWithoutAUsableRowIsRefusedWithItsReasons) {
  EXPECT_NE(error_of([&] { open(pair_row("q", "", "no")); }).find("its only row cannot be used"),
            std::string::npos);
  EXPECT_NE(error_of([&] { open("\n\n"); }).find("has no rows: every line is blank"),
            std::string::npos);
  for (const char* array : {"[]", "[\n]\n"}) {
    EXPECT_NE(error_of([&] {
                open(options(array, "pairs.json"));
              }).find("has no rows: its array is empty"),
              std::string::npos);
  }
}

TEST_F(DataSources, AVocabularyThatIsTooSmallIsNamedByItsRow) {
  DataOptions small = options(pair_row("q", "yes", "no"));
  small.vocab_limit = 259;
  EXPECT_EQ(error_of([&] { open(small); }), "");
  small.vocab_limit = 258;
  EXPECT_NE(error_of([&] { open(small); }).find("pairs.jsonl:1: has the token id 258"),
            std::string::npos);
}

TEST_F(DataSources, AnErrorOfTheDataShowsItsRowAndASettingThatHelps) {
  DataOptions some = options(numbered_pairs(3) + pair_row("q", "", "no"));
  some.max_bad = 0.1;
  try {
    open(some);
    FAIL();
  } catch (const DataError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("\n  row  {\"prompt\":\"q\",\"chosen\":\"\""), std::string::npos)
        << message;
    EXPECT_TRUE(message.ends_with("\n    --set max_bad=0.25  train on the other 3 rows"))
        << message;
  }
}

TEST_F(DataSources, RowsWithOneFaultAreListedOnce) {
  const std::string bad = pair_row("q", "", "no");
  const std::string message = error_of([&] { open(bad + bad + "{\n"); });
  EXPECT_NE(message.find("pairs.jsonl:1  empty_answer"), std::string::npos) << message;
  EXPECT_EQ(message.find("pairs.jsonl:2"), std::string::npos) << message;
  EXPECT_NE(message.find("pairs.jsonl:3:2  malformed_json: is not valid JSON"), std::string::npos)
      << message;
}

// Every spelling and every reason of tests/data, so that a change of either shows.
TEST_F(DataSources, TheSampleFilesAreAccountedFor) {
  DataOptions some = options("");
  some.sources[0].path = source_path("tests/data/pairs.jsonl");
  some.sources[0].keep = {"topic"};
  some.strict = true;
  EXPECT_EQ(open(some).size(), 24);
  some.strict = false;
  some.max_bad = 1;
  some.sources[0].path = source_path("tests/data/bad_pairs.jsonl");
  some.sources[0].keep = {};
  const DataSet bad = open(some);
  EXPECT_EQ(bad.ledger().sources[0].dropped,
            (std::map<std::string, int64_t>{{"empty_answer", 1},
                                            {"empty_list", 1},
                                            {"last_not_assistant", 1},
                                            {"missing_side", 1},
                                            {"no_assistant", 1},
                                            {"no_prompt", 1},
                                            {"not_an_object", 1},
                                            {"prompt_mismatch", 1},
                                            {"refused_kwargs", 1},
                                            {"same_answers", 1},
                                            {"wrong_type", 2}}));
  EXPECT_EQ(bad.size(), 2);
  EXPECT_EQ(bad.ledger().sources[0].lines, 16);
}

}  // namespace
}  // namespace xrun::data_source_test
