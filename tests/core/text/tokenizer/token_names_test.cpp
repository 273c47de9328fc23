// The named tokens of a folder, as transformers' special_tokens_map has them.

#include "core/text/tokenizer/special_tokens.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/data/rows/scratch_folder.h"
#include "tests/core/text/chat/template_fixture.h"

namespace xrun::token_names_test {

namespace {

class TokenNamesTest : public testing::Test {
 protected:
  TokenNamesTest() {
    folder_.write("tokenizer.json",
                  R"({"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "merges": [],
                      "vocab": {"a": 0, "<bos>": 1, "<eos>": 2, "<|endoftext|>": 3, "<s>": 4}}})");
  }

  std::shared_ptr<const Tokenizer> load(const std::string& config) {
    folder_.write("tokenizer_config.json", config);
    return Tokenizer::load(folder_.path());
  }

  // "bos_token=<s> image_token=<image>"
  std::string names(const std::string& config) {
    std::string out;
    const auto tokenizer = load(config);
    for (const auto& [name, text] : tokenizer->named_tokens()) {
      out += fmt::format("{}{}={}", out.empty() ? "" : " ", name, text);
    }
    return out;
  }

  ScratchFolder folder_;
};

TEST_F(TokenNamesTest, EveryTokenThatIsNamedIsThere) {
  EXPECT_EQ(names(R"({"image_token": "<image>", "eos_token": {"content": "</s>"},
                      "sep_token": "[SEP]", "bos_token": "<s>", "add_bos_token": true,
                      "pad_token": null, "unk_token": "",
                      "extra_special_tokens": {"audio_token": "<audio>"}})"),
            "bos_token=<s> eos_token=</s> unk_token= sep_token=[SEP] image_token=<image> "
            "audio_token=<audio>");
  EXPECT_EQ(names(R"({"extra_special_tokens": ["<x>"]})"), "");
}

TEST_F(TokenNamesTest, NamedTokensAreSpecialTokensOfTheTokenizer) {
  const auto tokenizer = load(R"({"image_token": "<image>",
                                  "extra_special_tokens": {"audio_token": "<audio>"}})");
  for (const char* text : {"<image>", "<audio>"}) {
    ASSERT_TRUE(tokenizer->id_of(text)) << text;
    EXPECT_TRUE(tokenizer->is_special(*tokenizer->id_of(text))) << text;
  }
}

TEST_F(TokenNamesTest, TemplatesSeeEveryNamedToken) {
  const auto tokenizer = load(R"({"image_token": "<image>", "sep_token": "<s>"})");
  const auto chat_template =
      make_jinja_template("{{ image_token }}{{ sep_token }}{{ eos_token is defined }}", "t",
                          template_tokens(*tokenizer));
  EXPECT_EQ(chat_template->render(messages({{"user", "q"}}), {}).text, "<image><s>False");
}

TEST_F(TokenNamesTest, AnIdOfConfigJsonGivesARoleButNoName) {
  folder_.write("config.json", R"({"bos_token_id": 1})");
  const auto tokenizer = load(R"({"bos_token": null})");
  EXPECT_EQ(tokenizer->bos_token(), "<bos>");
  EXPECT_TRUE(tokenizer->named_tokens().empty());
}

TEST_F(TokenNamesTest, TheMapHasTheLastWordUnlessTheConfigurationListsTokens) {
  folder_.write("special_tokens_map.json", R"({"eos_token": "<eos>", "bos_token": null})");
  EXPECT_EQ(names(R"({"eos_token": "a", "bos_token": "<bos>"})"), "eos_token=<eos>");
  EXPECT_EQ(names(R"({"eos_token": "a", "added_tokens_decoder": {}})"), "eos_token=a");
}

TEST_F(TokenNamesTest, AClassNamesWhatTheFolderDoesNot) {
  EXPECT_EQ(names(R"({"tokenizer_class": "GPT2TokenizerFast"})"),
            "bos_token=<|endoftext|> eos_token=<|endoftext|> unk_token=<|endoftext|>");
  EXPECT_EQ(names(R"({"tokenizer_class": "Qwen2Tokenizer", "pad_token": null})"),
            "eos_token=<|endoftext|> unk_token=<|endoftext|>");
  // Only what the vocabulary has.
  EXPECT_EQ(names(R"({"tokenizer_class": "GemmaTokenizer", "eos_token": "a"})"),
            "eos_token=a bos_token=<bos>");
  EXPECT_EQ(names(R"({"tokenizer_class": "PreTrainedTokenizerFast"})"), "");
  const auto tokenizer = load(R"({"tokenizer_class": "GPT2Tokenizer"})");
  EXPECT_EQ(tokenizer->eos_id(), 3);
  EXPECT_TRUE(tokenizer->is_special(3));
}

TEST_F(TokenNamesTest, WhatIsNoTokenIsNamedWithItsKey) {
  EXPECT_NE(error_of([&] { load(R"({"bos_token": 3})"); }).find("tokenizer_config.json: bos_token"),
            std::string::npos);
}

}  // namespace

}  // namespace xrun::token_names_test
