// The text of a row is parsed, repaired where it is not Unicode, or refused at its line and column.

#include "core/data/rows/row_parse.h"

#include <gtest/gtest.h>

#include "tests/core/data/rows/compressed_bytes.h"
#include "tests/scratch_folder.h"

namespace xrun::row_parse_test {
namespace {

TEST(RowParse, MalformedJsonIsARefusalThatNamesFileLineAndColumn) {
  int64_t repairs = 0;
  const auto refuse = [&](RawRow row) {
    try {
      parse_row(row, "rows.jsonl:3", repairs);
    } catch (const RowRefusal& refusal) {
      return refusal.reason() + " " + refusal.what();
    }
    return std::string();
  };
  EXPECT_TRUE(refuse({"{\"a\": 1,, }", RowForm::kJson, {0, 3}})
                  .starts_with("malformed_json rows.jsonl:3:9: is not valid JSON"));
  EXPECT_TRUE(refuse({"{\"a\": 1,, }", RowForm::kJson, {0, 3}, 100})
                  .starts_with("malformed_json rows.jsonl:3:109: "));
  EXPECT_TRUE(refuse({"{\n1}", RowForm::kJson, {0, 3}, 100})
                  .starts_with("malformed_json rows.jsonl:4:1: "));
  EXPECT_EQ(repairs, 0);
}

TEST(RowParse, ARowOfMoreValuesThanAreReadIsTooLongAndItsTextsAreNotCounted) {
  int64_t repairs = 0;
  std::string values = R"({"text":"\",[{","list":[0)";
  for (size_t i = 0; i < kMaxRowValues; ++i) values += ",0";
  values += "]}";
  try {
    parse_row({values}, "rows.jsonl:1", repairs);
    ADD_FAILURE() << "was read";
  } catch (const RowRefusal& refusal) {
    EXPECT_EQ(refusal.reason(), "too_long");
    EXPECT_EQ(std::string(refusal.what()).substr(0, 41),
              "the row has up to 8,388,612 JSON values, ");
  }
  const std::string commas(kMaxRowValues + 1, ',');
  const Json row = parse_row({R"({"text":"\",)" + commas + "\"}"}, "rows.jsonl:1", repairs);
  EXPECT_EQ(row.at("text").as_string(), "\"," + commas);
}

TEST(RowParse, InvalidUtf8IsRepairedAndCounted) {
  int64_t repairs = 0;
  const auto text = [&](std::string_view json) {
    return parse_row({json}, "r:1", repairs).at("a").as_string();
  };
  EXPECT_EQ(text("{\"a\":\"x\xFFy\xC3\"}"), "x\xEF\xBF\xBDy\xEF\xBF\xBD");
  EXPECT_EQ(repairs, 2);
  EXPECT_EQ(text("{\"a\":\"\xC3\xA9\"}"), "\xC3\xA9");
  EXPECT_EQ(repairs, 2);
}

TEST(RowParse, HalfASurrogatePairIsRepairedAndAWholeOneIsKept) {
  int64_t repairs = 0;
  const Json value =
      parse_row({"{\"a\":\"\\ud83d \\\\ud83d \\ud83d\\ude00 \\ude00\"}"}, "r:1", repairs);
  EXPECT_EQ(repairs, 2);
  EXPECT_EQ(value.at("a").as_string(), "\xEF\xBF\xBD \\ud83d \xF0\x9F\x98\x80 \xEF\xBF\xBD");
}

TEST(RowParse, PlainTextKeepsItsLinesAndLosesCarriageReturns) {
  int64_t repairs = 0;
  const Json value = parse_row({"a\r\nb\rc\n\xFF", RowForm::kText}, "r:1", repairs);
  EXPECT_EQ(value.at("text").as_string(), "a\nb\rc\n\xEF\xBF\xBD");
  EXPECT_EQ(repairs, 1);
}

TEST(RowFormHint, NamesTheFormOfTheFile) {
  const ScratchFolder folder;
  const auto hint = [&](const char* name, const std::string& bytes) {
    return row_form_hint(folder.write(name, bytes));
  };
  EXPECT_TRUE(hint("a.jsonl", "[\n{},\n{}]\n").starts_with("; the file is one array of rows"));
  EXPECT_TRUE(hint("b.jsonl", "{\n\"a\": 1\n}\n").starts_with("; its objects run over several"));
  EXPECT_EQ(hint("c.jsonl", gzip("{}\n")),
            "; it is compressed: name it " + (folder.path() / "c.jsonl.gz").string());
  EXPECT_EQ(hint("d.jsonl", "{}\n{}\n"), "");
  EXPECT_TRUE(hint("f.jsonl", "{'a': 1}\n{'a': 2}\n").starts_with("; its rows are Python dicts"));
  EXPECT_TRUE(hint("g.jsonl", "prompt,chosen\r\na,b\r\n").find("header of a CSV file") !=
              std::string::npos);
  EXPECT_EQ(hint("e.txt", "[\n{},\n{}]\n"), "");
}

TEST(RowFormHint, AnUnreadableFileHasNoHint) {
  const ScratchFolder folder;
  EXPECT_EQ(row_form_hint((folder.path() / "none.jsonl").string()), "");
  EXPECT_EQ(row_form_hint(folder.write("a.jsonl.gz", "no gzip")), "");
}

}  // namespace
}  // namespace xrun::row_parse_test
