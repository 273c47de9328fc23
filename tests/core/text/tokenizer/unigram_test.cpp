// Scores parse to the bits that the Rust package reads.

#include "core/text/tokenizer/unigram.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/json.h"
#include "tests/tree.h"

namespace xrun::unigram_test {
namespace {

TEST(SerdeNumber, EqualsThePackageToTheLastBit) {
  const Json cases = read_json(source_path("tests/golden/serde_numbers.json"));
  int inexact = 0;
  for (const Json& entry : cases.as_array()) {
    const std::string& text = entry.as_array()[0].as_string();
    const double want = std::strtod(entry.as_array()[1].as_string().c_str(), nullptr);
    EXPECT_EQ(serde_number(text), want) << text;
    EXPECT_EQ(std::signbit(serde_number(text)), std::signbit(want)) << text;
    inexact += std::strtod(text.c_str(), nullptr) != want;
  }
  EXPECT_GT(inexact, 30) << "the numbers do not separate the two kinds of rounding";
}

TEST(SerdeNumber, ReturnsForAnyExponent) {
  EXPECT_EQ(serde_number("1e99999999999999999999"), HUGE_VAL);
  EXPECT_EQ(serde_number("1e-99999999999999999999"), 0);
  EXPECT_EQ(serde_number("0e99999999999999999999"), 0);
}

}  // namespace
}  // namespace xrun::unigram_test
