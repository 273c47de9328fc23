// The bytes and roles of tokens.

#include "core/align/token_table.h"

#include <gtest/gtest.h>

#include "tests/core/align/piece_tokenizer.h"
#include "tests/tree.h"

namespace xrun::token_table_test {

namespace {

std::shared_ptr<const Tokenizer> load(const std::string& name) {
  return Tokenizer::load(source_path("tests/data/" + name));
}

std::string joined(const TokenTable& table, const std::vector<int32_t>& ids) {
  std::string out;
  for (const int32_t id : ids) out += table.bytes(id);
  return out;
}

TEST(TokenTable, PiecesOfExactTokenizersSpellTheText) {
  const std::string text = "naïve  日本 😀\n\t\x01 a";
  for (const char* name : {"tiny_tokenizer", "tokenizers/smol", "tokenizers/llama3",
                           "tokenizers/deepseek", "tokenizers/o200k"}) {
    const auto tokenizer = load(name);
    const TokenTable table(*tokenizer);
    EXPECT_TRUE(table.exact()) << name;
    EXPECT_EQ(joined(table, tokenizer->encode(text).ids), text) << name;
  }
  // These put a space before the text, and the table knows it.
  for (const char* name : {"tokenizers/llama2", "tokenizers/sp_bpe"}) {
    const auto tokenizer = load(name);
    const TokenTable table(*tokenizer);
    EXPECT_TRUE(table.exact()) << name;
    EXPECT_EQ(table.spelling().prefix, PrefixSpace::kAlways) << name;
    EXPECT_EQ(joined(table, tokenizer->encode(text).ids), " " + text) << name;
  }
}

TEST(TokenTable, NormalisingTokenizersAreNotExact) {
  for (const char* name : {"tokenizers/wordpiece", "tokenizers/precompiled"}) {
    EXPECT_FALSE(TokenTable(*load(name)).exact()) << name;
  }
}

TEST(TokenTable, ATokenMayHaveSeveralRoles) {
  const auto one = piece_tokenizer({"a"}, {{"<|end|>", "eos_token"}, {"<tool>", ""}});
  const auto two = piece_tokenizer({"a", "b"}, {{"</s>", "eos_token"}, {"<tool>", ""}});
  const TokenTable a(*one), b(*two);
  EXPECT_EQ(a.role(0), -1);
  EXPECT_EQ(a.role(1), special_role("eos"));
  EXPECT_EQ(a.role(1), b.role(2));
  EXPECT_EQ(a.role(2), b.role(3));  // by spelling
  EXPECT_NE(a.role(1), a.role(2));
  ASSERT_NE(a.roles(1), nullptr);
  EXPECT_EQ(special_role_name(a.roles(1)->back()), "token <|end|>");
  EXPECT_EQ(a.bytes(1), "");
  EXPECT_EQ(a.roles(0), nullptr);
}

TEST(TokenTable, IdsWithoutAPieceHaveNoBytesAndNoRole) {
  const TokenTable table(*piece_tokenizer({"a"}));
  for (const int32_t id : {1, 1 << 30, -1}) {
    EXPECT_EQ(table.bytes(id), "");
    EXPECT_EQ(table.role(id), TokenTable::kNoPiece);
  }
}

TEST(TokenTable, AnAddedTokenIsItsOwnText) {
  const ScratchFolder folder;
  folder.write("tokenizer.json", R"({"added_tokens": [
      {"id": 1, "content": "é!", "special": false, "normalized": false}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})");
  EXPECT_EQ(TokenTable(*Tokenizer::load(folder.path())).bytes(1), "é!");
}

}  // namespace

}  // namespace xrun::token_table_test
