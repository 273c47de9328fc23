// The bytes of the tokens concatenate to the text, however the pieces spell bytes.

#include "core/text/tokenizer/token_bytes.h"

#include <gtest/gtest.h>

#include "tests/core/text/tokenizer/small_tokenizer.h"
#include "tests/tree.h"

namespace xrun::token_bytes_test {
namespace {

std::string joined_bytes(const Tokenizer& tokenizer, const std::string& text) {
  const TokenBytes bytes(tokenizer);
  std::string all;
  for (const int32_t id : tokenizer.encode(text).ids) all += bytes.of(id);
  return all;
}

TEST(TokenBytes, ByteTokensGiveTheirBytes) {
  const auto tokenizer = Tokenizer::load(source_path("tests/data/tiny_tokenizer"));
  const std::string text = "naïve 日本 😀\n\t\x01";
  EXPECT_EQ(joined_bytes(*tokenizer, text), text);
  const TokenBytes bytes(*tokenizer);
  EXPECT_EQ(bytes.of(*tokenizer->id_of("<|im_end|>")), "<|im_end|>");
}

TEST(TokenBytes, ByteLevelTokensConcatenateToTheText) {
  for (const char* name : {"smol", "llama3", "deepseek", "o200k"}) {
    const auto tokenizer = small_tokenizer(name);
    EXPECT_EQ(joined_bytes(*tokenizer, "a tab\tnaïve 日本 😀\n"), "a tab\tnaïve 日本 😀\n") << name;
  }
}

// These tokenizers put a space before a text.
TEST(TokenBytes, MarksAreSpacesAndByteTokensAreBytes) {
  for (const char* name : {"llama2", "sp_bpe"}) {
    const auto tokenizer = small_tokenizer(name);
    EXPECT_EQ(joined_bytes(*tokenizer, "the way 日本 😀"), " the way 日本 😀") << name;
  }
}

TEST(TokenBytes, AnIdWithoutAPieceHasNoBytes) {
  const auto tokenizer = Tokenizer::load(source_path("tests/data/tiny_tokenizer"));
  const TokenBytes bytes(*tokenizer);
  EXPECT_EQ(bytes.of(-1), "");
  EXPECT_EQ(bytes.of(1 << 30), "");
}

}  // namespace
}  // namespace xrun::token_bytes_test
