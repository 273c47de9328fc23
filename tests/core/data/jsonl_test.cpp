#include "core/data/jsonl.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "core/data/data_files.h"
#include "core/data/row_parse.h"
#include "tests/core/data/scratch_folder.h"

namespace xrun {
namespace {

namespace fs = std::filesystem;

struct JsonLine {
  int64_t line = 0;
  Json value;
  int64_t repairs = 0;
};

bool next_line(JsonlReader& reader, JsonLine& out) {
  RawRow row;
  if (!reader.next_row(row)) return false;
  out.line = row.at.line;
  out.repairs = 0;
  out.value = parse_row(row, fmt::format("rows.jsonl:{}", row.at.line), out.repairs);
  return true;
}

std::vector<JsonLine> lines_of(const std::string& bytes, JsonlCursor from = {}) {
  const ScratchFolder folder;
  JsonlReader reader(folder.write("rows.jsonl", bytes), "rows.jsonl", from);
  std::vector<JsonLine> lines;
  JsonLine line;
  while (next_line(reader, line)) lines.push_back(line);
  EXPECT_EQ(reader.cursor().offset, bytes.size());
  return lines;
}

TEST(Jsonl, BlankLinesCountAsLinesButAreNoRows) {
  const std::vector<JsonLine> lines = lines_of("{\"a\":1}\n\n  \t\r\n{\"a\":2}");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].line, 1);
  EXPECT_EQ(lines[1].line, 4);
  EXPECT_EQ(lines[1].value.at("a").as_int(), 2);
}

TEST(Jsonl, AByteOrderMarkAndCrLfAreRead) {
  const std::vector<JsonLine> lines = lines_of("\xEF\xBB\xBF{\"a\":1}\r\n{\"a\":2}\r\n");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].repairs, 0);
}

TEST(Jsonl, AnEmptyFileHasNoRows) { EXPECT_TRUE(lines_of("").empty()); }

TEST(Jsonl, MalformedJsonIsNamedByFileLineAndColumn) {
  const ScratchFolder folder;
  JsonlReader reader(folder.write("rows.jsonl", "{}\n\n{\"a\": 1,, }\n"), "rows.jsonl");
  JsonLine line;
  ASSERT_TRUE(next_line(reader, line));
  const std::string message = error_of([&] { next_line(reader, line); });
  EXPECT_TRUE(message.starts_with("rows.jsonl:3:9: is not valid JSON")) << message;
}

TEST(Jsonl, AFileCutInTheMiddleOfARowIsMalformed) {
  const ScratchFolder folder;
  JsonlReader reader(folder.write("rows.jsonl", "{\"a\": \"b"), "rows.jsonl");
  JsonLine line;
  EXPECT_TRUE(error_of([&] { next_line(reader, line); }).starts_with("rows.jsonl:1:7:"));
}

TEST(Jsonl, InvalidUtf8IsRepairedAndCounted) {
  const std::vector<JsonLine> lines = lines_of("{\"a\":\"x\xFFy\xC3\"}\n{\"a\":\"\xC3\xA9\"}\n");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].repairs, 2);
  EXPECT_EQ(lines[0].value.at("a").as_string(), "x\xEF\xBF\xBDy\xEF\xBF\xBD");
  EXPECT_EQ(lines[1].repairs, 0);
}

TEST(Jsonl, HalfASurrogatePairIsRepairedAndAWholeOneIsKept) {
  const std::vector<JsonLine> lines =
      lines_of("{\"a\":\"\\ud83d \\\\ud83d \\ud83d\\ude00 \\ude00\"}");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].repairs, 2);
  EXPECT_EQ(lines[0].value.at("a").as_string(),
            "\xEF\xBF\xBD \\ud83d \xF0\x9F\x98\x80 \xEF\xBF\xBD");
}

TEST(Jsonl, ReadingGoesOnFromACursor) {
  const ScratchFolder folder;
  const std::string path = folder.write("rows.jsonl", "{\"a\":1}\n\n{\"a\":2}\n{\"a\":3}\n");
  JsonlReader reader(path, path);
  JsonLine line;
  next_line(reader, line);
  next_line(reader, line);
  JsonlReader second(path, path, reader.cursor());
  ASSERT_TRUE(next_line(second, line));
  EXPECT_EQ(line.line, 4);
  EXPECT_EQ(line.value.at("a").as_int(), 3);
  EXPECT_FALSE(next_line(second, line));
}

TEST(Jsonl, ALongLineIsOneRow) {
  const std::string text(20'000'000, 'x');
  const std::vector<JsonLine> lines = lines_of("{\"a\":\"" + text + "\"}\n{\"a\":2}\n");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].value.at("a").as_string().size(), text.size());
}

TEST(DataFiles, AGlobGivesItsFilesInOrder) {
  const ScratchFolder folder;
  folder.write("b.jsonl", "{}\n");
  folder.write("a.jsonl", "{} \n");
  folder.write("c.txt", "");
  const std::vector<DataFile> files = find_data_files((folder.path() / "*.jsonl").string());
  ASSERT_EQ(files.size(), 2u);
  EXPECT_TRUE(files[0].name.ends_with("/a.jsonl"));
  EXPECT_EQ(files[0].bytes, 4u);
  EXPECT_NE(files[0].digest, files[1].digest);
}

TEST(DataFiles, WhatIsNoFileIsNamed) {
  const ScratchFolder folder;
  const std::string missing = (folder.path() / "none.jsonl").string();
  EXPECT_TRUE(error_of([&] {
                find_data_files(missing);
              }).starts_with(missing + ": there is no such data file"));
  EXPECT_NE(error_of([&] { find_data_files(folder.path().string()); }).find("is a folder"),
            std::string::npos);
  EXPECT_NE(
      error_of([&] { find_data_files((folder.path() / "*.x").string()); }).find("no file matches"),
      std::string::npos);
  EXPECT_NE(
      error_of([&] { find_data_files(folder.write("p.parquet", "PAR1")); }).find("read_parquet"),
      std::string::npos);
  const std::string endless = "/" + std::string(300, 'a') + ".jsonl";
  EXPECT_EQ(error_of([&] { find_data_files(endless); }),
            endless + ": cannot be looked at: File name too long");
}

// The command that the message names, run in a shell.
int run_hint(const std::string& path) {
  const std::string message = error_of([&] { find_data_files(path); });
  const size_t line = message.rfind("\n  ");
  EXPECT_NE(line, std::string::npos) << message;
  return std::system((message.substr(line) + " 2>/dev/null").c_str());
}

TEST(DataFiles, ANamedConversionWorksAndWritesOverNothing) {
  const ScratchFolder folder;
  const std::string array = folder.write("it's an array.json", "[{\"a\": 1}, {\"a\": 2}]");
  EXPECT_EQ(run_hint(array), 0);
  const fs::path made = folder.path() / "it's an array.jsonl";
  EXPECT_EQ(read_file(made), "{\"a\": 1}\n{\"a\": 2}\n");
  folder.write("it's an array.jsonl", "mine");
  EXPECT_NE(run_hint(array), 0);
  EXPECT_EQ(read_file(made), "mine");

  const std::string lines = folder.write("lines.json", "{\"a\": 1}\n");
  folder.write("lines.jsonl", "mine");
  run_hint(lines);
  EXPECT_EQ(read_file(folder.path() / "lines.jsonl"), "mine");
  fs::remove(folder.path() / "lines.jsonl");
  EXPECT_EQ(run_hint(lines), 0);
  EXPECT_EQ(find_data_files((folder.path() / "lines.jsonl").string()).size(), 1u);
}

TEST(DataFiles, OnlyJsonLinesAreRead) {
  const ScratchFolder folder;
  for (const char* name : {"a.txt", "b.jsonl.gz", "c.zst", "d.csv", "e.parquet", "f"}) {
    EXPECT_NE(error_of([&] {
                find_data_files(folder.write(name, "plain text"));
              }).find("rows are read from .jsonl files"),
              std::string::npos)
        << name;
  }
}

TEST(Jsonl, Utf16IsNamedAsSuch) {
  EXPECT_NE(error_of([] {
              lines_of(std::string("\xFF\xFE{\0}\0\n\0", 8));
            }).find("rows.jsonl:1: is UTF-16, wanted UTF-8"),
            std::string::npos);
}

}  // namespace
}  // namespace xrun
