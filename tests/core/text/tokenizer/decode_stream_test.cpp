// Decoding token by token gives the text of decoding all ids at once.

#include "core/text/tokenizer/decode_stream.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "tests/core/text/tokenizer/generated_strings.h"
#include "tests/core/text/tokenizer/small_tokenizer.h"
#include "tests/scratch_folder.h"

namespace xrun::decode_stream_test {

namespace {

// Returns the texts of the pushes and of finish(); fails if one of them splits a character.
std::vector<std::string> streamed(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                                  bool skip_special = false) {
  DecodeStream stream(tokenizer, skip_special);
  std::vector<std::string> texts;
  for (const int32_t id : ids) texts.push_back(stream.push(id));
  texts.push_back(stream.finish());
  for (const std::string& text : texts) EXPECT_TRUE(is_valid_utf8(text)) << text;
  return texts;
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += text;
  return all;
}

class DecodeStreamOf : public testing::TestWithParam<const char*> {};

TEST_P(DecodeStreamOf, ConcatenatesToDecodeOfAllIds) {
  const auto tokenizer = small_tokenizer(GetParam());
  const GeneratedStrings generated;
  EncodeOptions options;
  options.all_special = options.add_post_processor = true;
  for (uint64_t i = 0; i < 2000; ++i) {
    std::vector<int32_t> ids = tokenizer->encode(generated(i), options).ids;
    // A reversed order, which no encoding gives, breaks characters.
    if (i % 2 == 1) std::reverse(ids.begin(), ids.end());
    for (const bool skip : {false, true}) {
      ASSERT_EQ(joined(streamed(*tokenizer, ids, skip)), tokenizer->decode(ids, skip)) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DecodeStreamOf,
                         testing::Values("smol", "llama2", "llama3", "metaspace", "regexes"));

TEST(DecodeStream, ReturnsAWordAtOnceAndACharacterWhenComplete) {
  const auto tokenizer = small_tokenizer("smol");
  const std::vector<int32_t> ids = tokenizer->encode(" the \U0001F355!").ids;
  const std::vector<std::string> texts = streamed(*tokenizer, ids);
  EXPECT_EQ(texts.front(), " the");
  EXPECT_EQ(texts.back(), "");  // nothing was held back at the end
  EXPECT_EQ(joined(texts), " the \U0001F355!");
  int silent = 0;
  for (size_t i = 0; i + 1 < texts.size(); ++i) silent += texts[i].empty();
  EXPECT_GE(silent, 2);  // the bytes of the character before its last one
}

TEST(DecodeStream, AnUnfinishedCharacterIsReturnedByFinish) {
  const auto tokenizer = small_tokenizer("smol");
  std::vector<int32_t> ids = tokenizer->encode("\U0001F355").ids;
  ids.pop_back();
  const std::vector<std::string> texts = streamed(*tokenizer, ids);
  EXPECT_EQ(texts.back(), "\uFFFD");
  EXPECT_EQ(joined(texts), tokenizer->decode(ids));
}

TEST(DecodeStream, TheSpaceBeforeTheFirstWordIsRemovedOnce) {
  const auto tokenizer = small_tokenizer("llama2");
  const std::vector<int32_t> ids = tokenizer->encode("it was  so").ids;
  const std::vector<std::string> texts = streamed(*tokenizer, ids);
  EXPECT_EQ(texts.front().substr(0, 1), "i");
  EXPECT_EQ(joined(texts), "it was  so");
}

// An embedding may have more rows than the tokenizer has ids, and the sampler may draw any.
TEST(DecodeStream, AnIdBeyondTheVocabularyGivesNothing) {
  const auto tokenizer = small_tokenizer("smol");
  const std::vector<int32_t> ids = tokenizer->encode("one two").ids;
  DecodeStream stream(*tokenizer);
  std::string text = stream.push(ids[0]);
  EXPECT_EQ(stream.push(100000), "");
  for (size_t i = 1; i < ids.size(); ++i) text += stream.push(ids[i]);
  EXPECT_EQ(text + stream.finish(), "one two");
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{INT32_MAX}), "");
}

TEST(DecodeStream, ANegativeIdIsAnErrorWithItsIndex) {
  const auto tokenizer = small_tokenizer("smol");
  DecodeStream stream(*tokenizer);
  stream.push(5);
  EXPECT_EQ(error_of([&] { stream.push(-1); }), "token 1 to decode is -1, wanted an id");
}

}  // namespace

}  // namespace xrun::decode_stream_test
