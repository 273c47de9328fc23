// Any bytes as a data file: an Error, or rows that are the same however the file is cut into blocks
// and wherever reading goes on. The first byte chooses format and compression.

#include <vector>

#include "core/base/error.h"
#include "core/data/row_parse.h"
#include "core/data/row_splitter.h"
#include "tools/fuzz/fuzz_target.h"

namespace xrun {

namespace {

constexpr const char* kNames[] = {"rows.jsonl",     "rows.json",     "rows.txt",
                                  "rows.jsonl.gz",  "rows.json.gz",  "rows.txt.gz",
                                  "rows.jsonl.zst", "rows.json.zst", "rows.txt.zst"};

struct Row {
  std::string text;
  int64_t line;
  ContentCursor behind;
};

struct Rows {
  std::vector<Row> rows;
  std::string error;  // that ended them
};

Rows read_rows(const std::string& path, size_t target, const ContentCursor& from = {}) {
  Rows result;
  try {
    const auto splitter = RowSplitter::open(path, "rows", from);
    RowBlock block;
    while (splitter->next(block, target)) {
      for (size_t r = 0; r < block.rows.size(); ++r) {
        const RowBlock::Row& row = block.rows[r];
        fuzz_check(row.begin <= row.end && row.end <= block.bytes(), "a row beyond its block");
        result.rows.push_back({std::string(block.text(r)), row.line, row.behind});
        int64_t repairs = 0;
        try {
          parse_row({block.text(r), splitter->form(), {0, row.line}}, "rows:1", repairs);
        } catch (const Error&) {
        }
      }
    }
  } catch (const Error& error) {
    result.error = error.what();
  }
  return result;
}

// How far damaged compressed data is read depends on the pieces, and so may an error's words.
void check_same(const Rows& got, const Rows& whole, size_t skipped, bool compressed) {
  fuzz_check(got.error.empty() == whole.error.empty(), "an error in one reading alone");
  if (compressed && !whole.error.empty()) return;
  fuzz_check(got.rows.size() + skipped == whole.rows.size(), "another number of rows");
  for (size_t r = 0; r < got.rows.size(); ++r) {
    fuzz_check(got.rows[r].text == whole.rows[r + skipped].text, "another row");
    fuzz_check(got.rows[r].line == whole.rows[r + skipped].line, "another line");
  }
}

}  // namespace

void fuzz_data_rows(std::string_view input) {
  if (input.empty()) return;
  const size_t format = static_cast<unsigned char>(input[0]) % std::size(kNames);
  const std::string path = fuzz_file(kNames[format], input.substr(1)) + "/" + kNames[format];
  const bool compressed = format >= 3;
  const Rows whole = read_rows(path, size_t{1} << 16);
  check_same(read_rows(path, 4), whole, 0, compressed);  // a byte order mark fits
  check_same(read_rows(path, 23), whole, 0, compressed);
  if (whole.rows.empty()) return;
  const size_t half = whole.rows.size() / 2;
  check_same(read_rows(path, 64, whole.rows[half].behind), whole, half + 1, compressed);
}

}  // namespace xrun
