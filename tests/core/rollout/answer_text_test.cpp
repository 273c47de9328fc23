// An answer is cut at the same byte however its text arrives, and a known answer is found in it as
// whole words.

#include "core/rollout/answer_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "tests/error_of.h"

namespace xrun::answer_text_test {
namespace {

// Returns what StopText releases of a text that arrives in pieces of `size` bytes.
std::string scanned(const std::string& text, const std::vector<std::string>& stops, size_t size) {
  StopText scan(stops);
  std::string out;
  for (size_t at = 0; at < text.size(); at += size) out += scan.push(text.substr(at, size));
  return out + scan.finish();
}

TEST(StopText, TheTextEndsBeforeTheFirstStopHoweverItIsCut) {
  for (size_t size = 1; size < 20; ++size) {
    EXPECT_EQ(scanned("one two three", {"tw"}, size), "one ");
    EXPECT_EQ(scanned("one two three", {"three", "o t"}, size), "one tw");
    EXPECT_EQ(scanned("one two three", {"four"}, size), "one two three");
    EXPECT_EQ(scanned("aaab", {"aab"}, size), "a");
    EXPECT_EQ(scanned("abcX and", {"abcX", "bc"}, size), "a") << "complete first";
    EXPECT_EQ(scanned("xabc", {"bc", "abc"}, size), "x") << "complete at one position: the longest";
    EXPECT_EQ(scanned("no end in sig", {"sight"}, size), "no end in sig");
    EXPECT_EQ(scanned("anything", {}, size), "anything");
  }
}

TEST(StopText, PiecesDoNotChangeARandomText) {
  const std::vector<std::string> stops = {"abab", "bbb", "caa"};
  for (uint64_t i = 0; i < 200; ++i) {
    std::string text;
    for (uint64_t t = 0; t < 40; ++t) text += static_cast<char>('a' + philox_u64(1, 1, i, t) % 3);
    const std::string whole = scanned(text, stops, 1);
    for (const size_t size : {2, 3, 7, 40}) EXPECT_EQ(scanned(text, stops, size), whole) << text;
  }
}

TEST(StopText, HoldsBackTextThatMayBeginAStop) {
  const std::vector<std::string> stops = {"\nUser:"};
  StopText scan(stops);
  EXPECT_EQ(scan.push("yes\n"), "yes");
  EXPECT_EQ(scan.push("\nUs"), "\n");
  EXPECT_EQ(scan.push("ual"), "\nUsual");
  EXPECT_FALSE(scan.stopped());
  EXPECT_EQ(scan.push("\nUser: and more"), "");
  EXPECT_TRUE(scan.stopped());
  EXPECT_EQ(scan.push("more"), "");
  EXPECT_EQ(scan.finish(), "");
}

TEST(StopText, RefusesAnEmptyStopAndOneThatIsNotUtf8) {
  EXPECT_EQ(message_of<UsageError>([] {
              check_stop_strings({"a", ""});
            }),
            "a stop string is empty, which would end every answer at once; remove it");
  EXPECT_EQ(error_of([] { check_stop_strings({"\xC3"}); }),
            "the stop string \"\uFFFD\" is not UTF-8; write it in UTF-8");
  EXPECT_NO_THROW(check_stop_strings({"é", "\n"}));
}

TEST(HoldsAnswer, FindsWholeWordsInEitherCase) {
  EXPECT_TRUE(holds_answer("The capital is PARIS.", "Paris"));
  EXPECT_TRUE(holds_answer("paris", "Paris"));
  EXPECT_TRUE(holds_answer("in New York, of course", "new york"));
  EXPECT_FALSE(holds_answer("a Parisian", "Paris"));
  EXPECT_FALSE(holds_answer("comParis", "Paris"));
  EXPECT_TRUE(holds_answer("comparison or Paris", "paris")) << "a later match counts";
  EXPECT_FALSE(holds_answer("", "Paris"));
  EXPECT_FALSE(holds_answer("anything", ""));
}

TEST(HoldsAnswer, NumbersMatchOnlyAsWholeNumbers) {
  EXPECT_TRUE(holds_answer("it is 42.", "42"));
  EXPECT_FALSE(holds_answer("it is 142", "42"));
  EXPECT_FALSE(holds_answer("it is 42nd", "42"));
  EXPECT_TRUE(holds_answer("答案是42。", "42"));
}

TEST(HoldsAnswer, AnEdgeThatIsNotALetterMayBeNextToAWord) {
  EXPECT_TRUE(holds_answer("x-5", "-5"));
  EXPECT_TRUE(holds_answer("C++20", "C++"));
  EXPECT_FALSE(holds_answer("a%w+", "[a-z]")) << "an answer is not a pattern";
}

}  // namespace
}  // namespace xrun::answer_text_test
