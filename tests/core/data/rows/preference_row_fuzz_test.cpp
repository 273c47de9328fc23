// Reading any row, however malformed, ends with a row or with an Error.

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/data/rows/preference_row.h"

namespace xrun::preference_row_fuzz_test {
namespace {

constexpr int kRounds = 3000;  // mutations of each row

constexpr const char* kRows[] = {
    R"({"prompt":"q","chosen":"a","rejected":"b","score":1.5})",
    R"({"prompt":[{"role":"user","content":"q"}],"chosen":[{"role":"assistant","content":"a"}],)"
    R"("rejected":{"role":"assistant","content":"b"}})",
    R"({"conversations":[{"from":"human","value":"q"}],"chosen":{"from":"gpt","value":"a"},)"
    R"("rejected":{"from":"gpt","value":"b"},"score":[1]})"};

// Values, names and delimiters, valid or not, that replace a piece of a row.
constexpr const char* kPieces[] = {"null",
                                   "true",
                                   "-1",
                                   "1e400",
                                   "99999999999999999999",
                                   "\"\"",
                                   "[]",
                                   "{}",
                                   "[{}]",
                                   "\"\\ud800\"",
                                   "\"user\"",
                                   "\"system\"",
                                   "\"chosen\"",
                                   "\"role\"",
                                   "\"value\"",
                                   "{\"role\":\"user\"}",
                                   ",",
                                   "]",
                                   "}",
                                   "\xff"};

// Replaces the text between two delimiters with one of kPieces, one to three times, and cuts one
// row in eight short.
std::string spoilt(std::string text, uint64_t seed) {
  uint64_t count = 0;
  const auto below = [&](size_t n) { return philox_u64(seed, 0, count++, 0) % n; };
  for (uint64_t edits = 1 + below(3); edits > 0 && !text.empty(); --edits) {
    const size_t begin = std::min(text.find_first_of(":,[{", below(text.size())), text.size() - 1);
    const size_t end = std::min(text.find_first_of(",:]}", begin + 1), text.size());
    text.replace(begin + 1, end - begin - 1, kPieces[below(std::size(kPieces))]);
  }
  if (below(8) == 0) text.resize(below(text.size() + 1));
  return text;
}

TEST(PreferenceRowFuzz, AMutatedRowIsReadOrRefused) {
  int read = 0, refused = 0;
  for (const char* row : kRows) {
    RowSettings settings;
    settings.keep = {"score"};
    const PreferenceReader reader(settings);
    for (uint64_t seed = 0; seed < kRounds; ++seed) {
      try {
        reader.read(parse_json(spoilt(row, seed), "row"));
        ++read;
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(read, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace xrun::preference_row_fuzz_test
