// A file gives the same rows in blocks of any size, with their line numbers.

#include "core/data/rows/row_splitter.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include "tests/scratch_folder.h"

namespace xrun::row_splitter_test {
namespace {

struct SplitRow {
  std::string text;
  int64_t line;
  uint64_t column;
  bool operator==(const SplitRow&) const = default;
};

struct SplitFile {
  std::vector<SplitRow> rows;
  std::vector<ContentCursor> after;
  ContentCursor end;
};

SplitFile split_file(const std::string& path, size_t target, const ContentCursor& from = {}) {
  const auto splitter = RowSplitter::open(path, "rows", from);
  SplitFile file;
  file.end = from;
  for (RowBlock block; splitter->next(block, target);) {
    EXPECT_EQ(block.from.offset, file.end.offset);
    for (size_t r = 0; r < block.rows.size(); ++r) {
      file.rows.push_back({std::string(block.text(r)), block.rows[r].line, block.rows[r].column});
      file.after.push_back(block.rows[r].after);
    }
    file.end = block.after;
  }
  return file;
}

class RowSplitterTest : public testing::Test {
 protected:
  SplitFile split(const std::string& bytes, const std::string& name = "rows.jsonl",
                  size_t target = 1 << 20) {
    return split_file(folder_.write(name, bytes), target);
  }
  std::vector<std::string> texts(const std::string& bytes, const std::string& name) {
    std::vector<std::string> texts;
    for (const SplitRow& row : split(bytes, name).rows) texts.push_back(row.text);
    return texts;
  }
  std::string error(const std::string& bytes, const std::string& name) {
    return error_of([&] { split(bytes, name); });
  }
  ScratchFolder folder_;
};

TEST_F(RowSplitterTest, BlankLinesCountAsLinesButAreNotRows) {
  const SplitFile file = split("{\"a\":1}\n\n  \t\r\n{\"a\":2}");
  EXPECT_EQ(file.rows, (std::vector<SplitRow>{{"{\"a\":1}", 1, 0}, {"{\"a\":2}", 4, 0}}));
  EXPECT_EQ(file.end.lines, 3);
  EXPECT_EQ(file.end.column, 7u);
}

TEST_F(RowSplitterTest, AByteOrderMarkAndCrLfAreNotPartOfARow) {
  EXPECT_EQ(texts("\xEF\xBB\xBF{\"a\":1}\r\n{\"a\":2}\r\n", "r.jsonl"),
            (std::vector<std::string>{"{\"a\":1}", "{\"a\":2}"}));
  EXPECT_EQ(texts("\xEF\xBB\xBF[1,\r\n2]", "r.json"), (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(texts("\xEF\xBB\xBFone\r\n\r\ntwo\r\n", "r.txt"),
            (std::vector<std::string>{"one", "two"}));
}

TEST_F(RowSplitterTest, AnEmptyFileHasNoRows) {
  EXPECT_TRUE(split("").rows.empty());
  EXPECT_TRUE(split("\n\n").rows.empty());
  EXPECT_TRUE(split("", "r.txt").rows.empty());
  EXPECT_TRUE(split(" [ ]\n", "r.json").rows.empty());
}

TEST_F(RowSplitterTest, ElementsOfAnArrayAreRowsWithTheirPositions) {
  const SplitFile file =
      split("[{\"a\": \"]}\\\"\",\n \"b\": [1, {}]} , \"x\\\\\",\n\n 3.5e2 ,null]\n", "r.json");
  EXPECT_EQ(file.rows, (std::vector<SplitRow>{{"{\"a\": \"]}\\\"\",\n \"b\": [1, {}]}", 1, 1},
                                              {"\"x\\\\\"", 2, 17},
                                              {"3.5e2", 4, 1},
                                              {"null", 4, 8}}));
}

TEST_F(RowSplitterTest, ParagraphsOfATextAreRows) {
  const SplitFile file = split("\n\none\nline\n\n \ntwo \r\nlines\r\n\n\n\nthree", "r.txt");
  EXPECT_EQ(file.rows, (std::vector<SplitRow>{
                           {"one\nline", 3, 0}, {"two \r\nlines", 7, 0}, {"three", 12, 0}}));
}

TEST_F(RowSplitterTest, BlocksOfAnySizeGiveTheSameRowsAndReadingContinuesAfterEach) {
  std::string lines, array = "[", paragraphs;
  for (int i = 0; i < 40; ++i) {
    const std::string text(static_cast<size_t>(i * i % 37 + 1), static_cast<char>('a' + i % 26));
    lines += "\"" + text + (i % 5 == 2 ? "\"\n\n" : "\"\n");
    array += "{\"" + text + "\": \"\\\\\\\"" + text + (i < 39 ? "\"},\n " : "\"}\n]\n");
    paragraphs += text + "\n" + text + (i % 4 == 1 ? "\n\n \n" : "\n\n");
  }
  const std::pair<const char*, std::string> files[] = {
      {"r.jsonl", lines}, {"r.json", array}, {"r.txt", paragraphs}};
  for (const auto& [name, bytes] : files) {
    const std::string path = folder_.write(name, bytes);
    const SplitFile whole = split_file(path, 1 << 20);
    EXPECT_EQ(whole.rows.size(), 40u) << name;
    EXPECT_EQ(whole.end.offset, bytes.size()) << name;
    for (size_t target : {1, 2, 3, 7, 64, 1000}) {
      ASSERT_EQ(split_file(path, target).rows, whole.rows) << name << " " << target;
    }
    for (size_t r = 0; r < whole.rows.size(); ++r) {
      const SplitFile rest = split_file(path, 16, whole.after[r]);
      ASSERT_TRUE(std::equal(rest.rows.begin(), rest.rows.end(),
                             whole.rows.begin() + static_cast<std::ptrdiff_t>(r) + 1,
                             whole.rows.end()))
          << name << " " << r;
      EXPECT_EQ(rest.end.lines, whole.end.lines);
    }
  }
}

TEST_F(RowSplitterTest, ARowLongerThanABlockIsWhole) {
  const std::string text(20'000'000, 'x');
  const SplitFile file = split("\"" + text + "\"\n2\n");
  ASSERT_EQ(file.rows.size(), 2u);
  EXPECT_EQ(file.rows[0].text.size(), text.size() + 2);
}

TEST_F(RowSplitterTest, ADamagedArrayIsReportedAtTheFault) {
  const std::pair<const char*, const char*> cases[] = {
      {"[1 2]", "rows:1:4: is not valid JSON: wanted a comma or ]"},
      {"[1,\n,2]", "rows:2:1: is not valid JSON: wanted a value"},
      {"[1,2,]", "rows:1:6: is not valid JSON: wanted a value"},
      {"[1]\n x", "rows:2:2: is not valid JSON: there is text after the array"},
      {"[1, {\"a\": \"", "rows:1:12: is not valid JSON: the file ends inside the array"},
      {"[1", "the file ends inside the array"},
      {"[1,", "the file ends inside the array"},
      {"7", "rows:1:1: is not valid JSON: wanted [, an array of rows"},
      {"{\"rows\": []}", "rows: is one object, wanted an array of rows"},
      // The fix is a command in Python that writes the list inside the object to a file.
      {"{\"version\": \"[1]\", \"meta\": {\"x\": [1]}, \"data\": [{}]}",
       "(sys.argv[1]))['data'], "},
      {"{\"it's\": [1], \"n\": 1}", "(sys.argv[1]))['rows'], "},
      {"{\"a\": 1}\n{\"a\": 2}\n", "these are JSON Lines"},
  };
  for (const auto& [bytes, want] : cases) {
    const std::string message = error(bytes, "r.json");
    EXPECT_NE(message.find(want), std::string::npos) << bytes << ": " << message;
  }
}

TEST_F(RowSplitterTest, Utf16IsRefusedByName) {
  for (const char* name : {"r.jsonl", "r.json", "r.txt"}) {
    EXPECT_NE(
        error(std::string("\xFF\xFE{\0}\0\n\0", 8), name).find("rows:1: is UTF-16, wanted UTF-8"),
        std::string::npos);
  }
}

}  // namespace
}  // namespace xrun::row_splitter_test
