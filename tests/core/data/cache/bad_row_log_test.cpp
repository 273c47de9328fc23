// The log of bad rows lists exactly the committed bad rows of its file.

#include "core/data/cache/bad_row_log.h"

#include <gtest/gtest.h>

#include "core/data/cache/cache_reader.h"
#include "tests/core/data/rows/toy_rows.h"
#include "tests/scratch_folder.h"

namespace xrun::bad_row_log_test {
namespace {

namespace fs = std::filesystem;

TEST(BadRowLog, RowsThatAreNotCommittedAreCutOff) {
  const ScratchFolder folder;
  const fs::path path = folder.path() / kBadRowsName;
  BadRowsEntry committed;
  {
    BadRowLog log(path, {});
    log.add("a.jsonl", 3, "no_prompt", "it has \"none\"");
    committed = log.commit();
    EXPECT_EQ(log.commit(), committed);
    log.add("a.jsonl", 4, "no_prompt", "nor this");
    EXPECT_NE(log.commit(), committed);
  }
  const std::string first =
      "{\"file\":\"a.jsonl\",\"line\":3,\"reason\":\"no_prompt\",\"detail\":\"it has "
      "\\\"none\\\"\"}\n";
  BadRowLog log(path, committed);
  EXPECT_EQ(read_file(path), first);
  EXPECT_EQ(log.commit(), committed);
  log.add("b.jsonl", 1, "x", std::string(1000, 'y'));
  const BadRowsEntry both = log.commit();
  EXPECT_EQ(both.rows, 2);
  EXPECT_EQ(both.bytes, read_file(path).size());
  EXPECT_EQ(both.xxh3, hash_hex(read_file(path)));
  EXPECT_LT(both.bytes, 700u);  // details are cut
}

TEST(BadRowLog, AFileOfOtherBytesIsRefused) {
  const ScratchFolder folder;
  const fs::path path = folder.path() / kBadRowsName;
  BadRowLog first(path, {});
  first.add("a.jsonl", 3, "no_prompt", "none");
  const BadRowsEntry committed = first.commit();
  std::string bytes = read_file(path);
  bytes[10] ^= 1;
  write_file_atomic(path, bytes);
  EXPECT_NE(error_of([&] { BadRowLog(path, committed); }).find("is damaged"), std::string::npos);
  fs::remove(path);
  EXPECT_EQ(error_of([&] { BadRowLog(path, committed); }), path.string() + ": is missing");
}

TEST(BadRowLog, ACacheListsEveryBadRowAndItsLedgerNamesTheFile) {
  const ScratchFolder folder;
  const CacheSource source =
      toy_source(folder.write("toys.jsonl", "{oops\n" + toy_file(9000)), 1 << 20);
  const fs::path dir = build_toys(folder.path(), source);
  const CacheReader reader(dir);
  const SourceLedger& ledger = reader.manifest().ledger;
  EXPECT_GT(ledger.dropped_total(), 1200);
  EXPECT_EQ(ledger.bad.size(), SourceLedger::kListedRows);
  EXPECT_EQ(reader.manifest().bad_rows.rows, ledger.dropped_total());
  const std::string text = read_file(dir / kBadRowsName);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), ledger.dropped_total());
  const Json first = parse_json(text.substr(0, text.find('\n')), "first");
  EXPECT_EQ(first.at("file").as_string(), source.files[0].name);
  EXPECT_EQ(first.at("line").as_int(), 1);
  EXPECT_EQ(first.at("reason").as_string(), "malformed_json");
  EXPECT_NE(first.at("detail").as_string().find("toys.jsonl:1:2: is not valid JSON"),
            std::string::npos);
  const std::string shown = Ledger{{ledger}}.text(2);
  EXPECT_NE(shown.find((dir / kBadRowsName).string() + " lists all"), std::string::npos) << shown;
}

class FilteredToys : public ToyEncoder {
 public:
  void encode_value(const Json& row, const std::string& location, EncodedRow& out) const override {
    ToyEncoder::encode_value(row, location, out);
    if (line_of(location) % 2 == 0) throw RowRefusal(kFilteredReason, "even");
  }
};

TEST(BadRowLog, FilteredRowsAreCountedAndNotBad) {
  const ScratchFolder folder;
  const CacheSource source = toy_source(folder.write("toys.jsonl", toy_file(60)));
  const fs::path dir =
      build_toys(folder.path(), source, [] { return std::make_unique<FilteredToys>(); });
  const SourceLedger ledger = CacheReader(dir).manifest().ledger;
  const int64_t filtered = ledger.dropped.at(kFilteredReason);
  EXPECT_GT(filtered, 10);
  EXPECT_EQ(ledger.bad_total(), ledger.dropped_total() - filtered);
  EXPECT_EQ(static_cast<int64_t>(ledger.bad.size()), ledger.bad_total());
  EXPECT_EQ(read_file(dir / kBadRowsName).find(kFilteredReason), std::string::npos);
}

}  // namespace
}  // namespace xrun::bad_row_log_test
