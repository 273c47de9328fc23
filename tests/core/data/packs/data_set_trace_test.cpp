// A row of a set is traced back to its place in the data file.

#include <fstream>

#include "core/data/packs/data_set.h"
#include "core/text/chat/turn_tail.h"
#include "tests/core/data/rows/compressed_bytes.h"
#include "tests/core/data/rows/pair_fixture.h"
#include "tests/error_of.h"

namespace xrun::data_set_trace_test {
namespace {

using DataSetTrace = PairFixture;

std::vector<std::string> roles(const RowTrace::Stream& stream) {
  std::vector<std::string> out;
  for (const MessageRange& range : stream.messages) out.push_back(range.role);
  return out;
}

TEST_F(DataSetTrace, StreamsOfARowMatchItsCache) {
  const DataSet set = open(numbered_pairs(40));
  const std::vector<RowTrace> traces = set.trace({7, 3, 39}, tokenizer());
  ASSERT_EQ(traces.size(), 3u);
  const std::vector<int64_t> rows = {7, 3, 39};
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(traces[i].failure, "");
    ASSERT_EQ(traces[i].streams.size(), 2u);
    for (size_t s = 0; s < 2; ++s) {
      EXPECT_EQ(traces[i].streams[s].ids, set.stream(rows[i], s).ids);
      EXPECT_EQ(traces[i].streams[s].offsets.size(), traces[i].streams[s].ids.size());
      EXPECT_EQ(roles(traces[i].streams[s]), (std::vector<std::string>{"user", "assistant"}));
    }
  }
}

TEST_F(DataSetTrace, RowsOfAnArrayOnOneLineAreRecognisedByTheirTokens) {
  std::string rows = numbered_pairs(4);
  for (char& c : rows) {
    if (c == '\n') c = ',';
  }
  rows.back() = ']';
  const DataSet set = open(options("[" + rows, "pairs.json"));
  const std::vector<RowTrace> traces = set.trace({2, 0, 3, 1}, tokenizer());
  EXPECT_EQ(traces[0].streams.at(0).ids, set.stream(2, 0).ids);
  EXPECT_EQ(traces[3].streams.at(1).ids, set.stream(1, 1).ids);
}

TEST_F(DataSetTrace, TokensThatWereCutOffAreInTheTrace) {
  DataOptions asked = options(pair_row("q", std::string(200, 'y'), "no"));
  asked.settings.max_length = 100;
  asked.settings.over_length = OverLength::kCut;
  const DataSet set = open(asked);
  const RowTrace trace = set.trace({0}, tokenizer())[0];
  EXPECT_EQ(set.stream(0, 0).ids.size(), 100u);
  EXPECT_GT(trace.streams.at(0).ids.size(), 200u);
  EXPECT_EQ(set.cut_tokens(0), static_cast<int64_t>(trace.streams[0].ids.size()) - 100);
}

TEST_F(DataSetTrace, AChangedOrMissingFileIsReported) {
  const DataOptions asked = options(numbered_pairs(3));
  const DataSet set = open(asked);
  folder_.write("pairs.jsonl", numbered_pairs(1) + pair_row("other", "x", "y") + "\x01\n");
  const std::vector<RowTrace> traces = set.trace({0, 1, 2}, tokenizer());
  EXPECT_EQ(traces[0].failure, "");
  EXPECT_EQ(traces[1].failure, "it has changed since it was cached");
  EXPECT_NE(traces[2].failure.find("is not valid JSON"), std::string::npos) << traces[2].failure;
  std::filesystem::remove(asked.sources[0].path);
  EXPECT_EQ(
      set.trace({0}, tokenizer())[0].failure,
      asked.sources[0].path +
          ": cannot be opened: No such file or directory; check the path and the disk that holds "
          "it");
  EXPECT_TRUE(set.trace({0}, tokenizer())[0].streams.empty());
}

// Bytes that this process has read from files so far.
int64_t bytes_read() {
  std::ifstream io("/proc/self/io");
  std::string name;
  int64_t bytes = -1;
  while (io >> name >> bytes && name != "rchar:") {
  }
  return bytes;
}

// 500 prompts of 20 kB each, with blank lines between them.
std::string long_prompts(int first = 0) {
  std::string bytes;
  for (int i = 0; i < first; ++i) bytes += "{\"prompt\": \"short\"}\n\n";
  for (int i = first; i < 500; ++i) {
    bytes += "{\"prompt\": \"" + std::to_string(i) + std::string(20'000, 'x') + "\"}\n\n";
  }
  return bytes;
}

TEST_F(DataSetTrace, ARowOfALargeFileIsReadWithoutTheRowsBeforeIt) {
  DataOptions asked = options(long_prompts(), "prompts.jsonl");
  asked.kind = RowKind::kPrompts;
  const DataSet set = open(asked);
  const auto read = [&](const std::vector<int64_t>& rows) {
    const int64_t before = bytes_read();
    const std::vector<Conversation> found = set.conversations(rows, tokenizer());
    const int64_t bytes = bytes_read() - before;
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::string text = dump_json(found[i].messages);
      EXPECT_NE(text.find("\"" + std::to_string(rows[i]) + "xxx"), std::string::npos) << rows[i];
    }
    return bytes;
  };
  constexpr int64_t kRow = 400'000;  // a block, the row at its end, and the row of the cache
  EXPECT_GT(read({499}), 9'000'000);
  EXPECT_LT(read({498}), kRow);
  EXPECT_LT(read({250, 3, 400}), 3 * kRow);
  // Another file of the same name has other positions.
  folder_.write("prompts.jsonl", long_prompts(/*first=*/300));
  EXPECT_LT(read({400}), 3'000'000);
  EXPECT_EQ(
      error_of([&] { set.conversations({250}, tokenizer()); }),
      set.location(250) + ": the row cannot be read again: it has changed since it was cached");
}

TEST_F(DataSetTrace, RowsOfALongLineAreFoundTwice) {
  std::string rows = "[";
  for (int i = 0; i < 12; ++i) {
    rows += (i > 0 ? "," : "") + std::string("{\"prompt\": \"") + std::to_string(i) +
            std::string(20'000, 'x') + "\"}" + (i == 8 ? "\n" : "");
  }
  DataOptions asked = options(rows + "]", "prompts.json");
  asked.kind = RowKind::kPrompts;
  const DataSet set = open(asked);
  const std::vector<int64_t> all = {11, 0, 8, 9, 5};
  const std::vector<Conversation> first = set.conversations(all, tokenizer());
  const std::vector<Conversation> again = set.conversations(all, tokenizer());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(again[i].messages, first[i].messages) << all[i];
    EXPECT_EQ(set.conversations({all[i]}, tokenizer())[0].messages, first[i].messages) << all[i];
  }
}

// Display reads the first 256 MB; a conversation must continue whatever its row.
TEST_F(DataSetTrace, SlowAConversationIsReadFromAnywhereInItsFile) {
  std::string blank(size_t{8} << 20, ' ');
  blank.back() = '\n';
  const std::string frame = zstd(blank);
  std::string bytes = zstd("{\"prompt\": \"first\"}\n");
  for (int i = 0; i < 33; ++i) bytes += frame;
  DataOptions asked = options(bytes + zstd("{\"prompt\": \"last\"}\n"), "prompts.jsonl.zst");
  asked.kind = RowKind::kPrompts;
  const DataSet set = open(asked);
  ASSERT_EQ(set.size(), 2);
  EXPECT_EQ(set.trace({1}, tokenizer())[0].failure,
            "it is more than 256 MB into its file, and no more is read for display");
  // A step that crosses epochs has a row twice.
  const std::vector<Conversation> found = set.conversations({1, 0, 1}, tokenizer());
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[2].messages, found[0].messages);
  EXPECT_EQ(dump_json(found[0].messages), R"([{"role":"user","content":"last"}])");
  EXPECT_EQ(dump_json(found[1].messages), R"([{"role":"user","content":"first"}])");
}

}  // namespace
}  // namespace xrun::data_set_trace_test
