// The engine and tools/oracle/read_cache.py, written from docs/cache-format.md, read the same rows.

#include <cstdio>
#include <cstdlib>

#include "core/data/cache/row_cache.h"
#include "core/data/cache/row_columns.h"
#include "tests/core/data/rows/pair_fixture.h"
#include "tests/core/data/rows/toy_rows.h"
#include "tests/tree.h"

namespace xrun::cache_format_test {
namespace {

using CacheFormat = PairFixture;

// Returns the rows of a cache as the script reads them.
std::vector<Json> rows_of_script(const std::filesystem::path& cache) {
  const std::string command =
      "python3 " + source_path("tools/oracle/read_cache.py") + " " + cache.string();
  std::string output;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  char buffer[4096];
  while (size_t n = std::fread(buffer, 1, sizeof(buffer), pipe)) output.append(buffer, n);
  EXPECT_EQ(::pclose(pipe), 0);
  std::vector<Json> rows;
  for (size_t at = 0; at < output.size(); at = output.find('\n', at) + 1) {
    const size_t end = output.find('\n', at);
    rows.push_back(parse_json(std::string_view(output).substr(at, end - at), "row"));
  }
  return rows;
}

Json list_of(const auto& values) {
  Json list = Json::array();
  for (auto value : values) list.push_back(static_cast<int64_t>(value));
  return list;
}

TEST_F(CacheFormat, AReaderWrittenFromTheDocumentReadsTheSameRows) {
  if (std::system("python3 -c 0 2>/dev/null") != 0) GTEST_SKIP() << "there is no python3";
  DataOptions some = options(numbered_pairs(200));
  some.sources[0].keep = {"score", "tag"};
  some.shard_bytes = 4096;
  const DataSet set = open(some);
  const std::vector<Json> rows = rows_of_script(set.cache_dirs()[0]);
  const auto cache = RowCache::open(set.cache_dirs()[0], RowKind::kPreference);
  ASSERT_EQ(rows.size(), 200u);
  ASSERT_EQ(cache->size(), 200);
  TokenStream tokens;
  for (int64_t row = 0; row < 200; ++row) {
    const Json& got = rows[static_cast<size_t>(row)];
    cache->read(row, kChosen, tokens);
    ASSERT_EQ(got.at("chosen_ids"), list_of(tokens.ids));
    ASSERT_EQ(got.at("chosen_mask"), list_of(tokens.trained));
    cache->read(row, kRejected, tokens);
    ASSERT_EQ(got.at("rejected_ids"), list_of(tokens.ids));
    ASSERT_EQ(got.at("rejected_mask"), list_of(tokens.trained));
    ASSERT_EQ(got.at("line").as_int(), cache->at(row).line);
    ASSERT_EQ(got.at("kept").at("score").as_double(), cache->extra_number(row, 0));
    ASSERT_EQ(got.at("kept").at("tag").as_string(), cache->extra_string(row, 1));
    ASSERT_EQ(got.at("weight").as_double(), 1.0);
  }
}

// Encodes a row of any kind as a function of its line number.
class NumberedRows : public RowEncoder {
 public:
  NumberedRows() : RowEncoder({}) {}
  void encode_value(const Json&, const std::string& location, EncodedRow& out) const override {
    const int32_t line = static_cast<int32_t>(line_of(location));
    for (int32_t i = 0; i <= line % 5; ++i) {
      out.streams[0].ids.push_back(line * 700 + i);
      out.streams[0].trained.push_back(i % 2);
      out.streams[0].weights.push_back(0.25f * static_cast<float>(i));
    }
    out.streams[1].ids = {line};
    out.streams[1].trained = {1};
    out.prompt_hash = UINT64_MAX - static_cast<uint64_t>(line);
    out.weight = 0.5f;
    out.label = static_cast<int8_t>(line % 2);
    out.extra = {Json("t" + std::to_string(line))};
  }
};

TEST_F(CacheFormat, SlowTheScriptReadsTheColumnsOfEveryRowType) {
  if (std::system("python3 -c 0 2>/dev/null") != 0) GTEST_SKIP() << "there is no python3";
  for (int kind = 0; kind <= static_cast<int>(RowKind::kFeedback); ++kind) {
    CacheSource source = toy_source(folder_.write("toys.jsonl", toy_file(100)), 900);
    source.schema = {RowKind{kind}, 100'000, {"line"}, RowKind{kind} == RowKind::kTokens};
    source.key_document.set("kind", kind);
    const std::filesystem::path dir =
        build_toys(folder_.path(), source, [] { return std::make_unique<NumberedRows>(); });
    const auto cache = RowCache::open(dir, RowKind{kind});
    const std::vector<Json> rows = rows_of_script(dir);
    ASSERT_EQ(rows.size(), 100u) << row_kind_name(RowKind{kind});
    TokenStream tokens;
    for (int64_t row = 0; row < 100; ++row) {
      const Json& got = rows[static_cast<size_t>(row)];
      const std::vector<std::string> names = stream_names(RowKind{kind});
      for (size_t s = 0; s < names.size(); ++s) {
        cache->read(row, s, tokens);
        ASSERT_EQ(got.at(names[s] + "_ids"), list_of(tokens.ids));
        ASSERT_EQ(got.at(names[s] + "_mask"), list_of(tokens.trained));
        for (size_t i = 0; i < tokens.weights.size(); ++i) {
          ASSERT_EQ(got.at(names[s] + "_weights").as_array()[i].as_double(), tokens.weights[i]);
        }
      }
      ASSERT_EQ(got.find("tokens_weights") != nullptr, RowKind{kind} == RowKind::kTokens);
      ASSERT_EQ(got.find("label") != nullptr, RowKind{kind} == RowKind::kFeedback);
      if (const Json* label = got.find("label")) {
        ASSERT_EQ(label->as_int(), cache->label(row));
      }
      ASSERT_EQ(got.at("line").as_int(), cache->at(row).line);
      ASSERT_EQ(got.at("kept").at("line").as_string(), "t" + std::to_string(cache->at(row).line));
      ASSERT_EQ(got.at("weight").as_double(), 0.5);
    }
  }
}

}  // namespace
}  // namespace xrun::cache_format_test
