// Two readers of one format: the engine's, and a script written from docs/cache-format.md.

#include <cstdio>
#include <cstdlib>

#include "core/data/row_cache.h"
#include "tests/core/data/pair_fixture.h"

namespace xrun {
namespace {

using CacheFormat = PairFixture;

std::string output_of(const std::string& command) {
  std::string output;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  char buffer[4096];
  while (size_t n = std::fread(buffer, 1, sizeof(buffer), pipe)) output.append(buffer, n);
  ::pclose(pipe);
  return output;
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
  some.segment_bytes = 4096;
  const DataSet set = open(some);
  const std::string text = output_of("python3 " XRUN_SOURCE_DIR "/tools/oracle/read_cache.py " +
                                     set.cache_dirs()[0].string());
  const auto cache = RowCache::open(set.cache_dirs()[0], RowKind::kPreference);
  int64_t row = 0;
  TokenStream tokens;
  for (size_t at = 0; at < text.size(); ++row) {
    const size_t end = text.find('\n', at);
    const Json got = parse_json(std::string_view(text).substr(at, end - at), "row");
    at = end + 1;
    ASSERT_LT(row, cache->size());
    cache->read(row, kChosen, tokens);
    ASSERT_EQ(got.at("chosen_ids"), list_of(tokens.ids));
    ASSERT_EQ(got.at("chosen_mask"), list_of(tokens.trained));
    cache->read(row, kRejected, tokens);
    ASSERT_EQ(got.at("rejected_ids"), list_of(tokens.ids));
    ASSERT_EQ(got.at("rejected_mask"), list_of(tokens.trained));
    ASSERT_EQ(got.at("line").as_int(), cache->at(row).line);
    ASSERT_EQ(got.at("score").as_double(), cache->kept_number(row, 0));
    ASSERT_EQ(got.at("tag").as_string(), cache->kept_string(row, 1));
    ASSERT_EQ(got.at("weight").as_double(), 1.0);
  }
  EXPECT_EQ(row, 200);
}

}  // namespace
}  // namespace xrun
