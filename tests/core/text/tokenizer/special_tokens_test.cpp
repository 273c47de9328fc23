// The special tokens of tokenizer_config.json and special_tokens_map.json, their ids and their
// names, as in transformers 5.23.

#include "core/text/tokenizer/special_tokens.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/text/chat/template_fixture.h"
#include "tests/scratch_folder.h"

namespace xrun::special_tokens_test {

namespace {

class SpecialTokensTest : public testing::Test {
 protected:
  SpecialTokensTest() {
    folder_.write("tokenizer.json",
                  R"({"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "merges": [],
                      "vocab": {"a": 0, "<bos>": 1, "<eos>": 2, "b": 3, "<": 4}}})");
  }

  std::shared_ptr<const Tokenizer> load(const std::string& config, const std::string& map) {
    folder_.write("tokenizer_config.json", config);
    folder_.write("special_tokens_map.json", map);
    return Tokenizer::load(folder_.path());
  }

  // Returns the pieces after the vocabulary: "C D".
  std::string added(const std::string& config, const std::string& map = "{}") {
    const auto tokenizer = load(config, map);
    std::string out;
    for (int32_t id = 5; id < tokenizer->vocab_size(); ++id) {
      out += (id == 5 ? "" : " ") + std::string(tokenizer->piece(id));
    }
    return out;
  }

  ScratchFolder folder_;
};

TEST_F(SpecialTokensTest, TheMapOverridesRoles) {
  EXPECT_EQ(added(R"({"eos_token": "X", "bos_token": "<bos>"})", R"({"eos_token": "Y"})"), "Y");
  EXPECT_EQ(added(R"({"eos_token": "X"})", R"({"eos_token": null})"), "");
  EXPECT_EQ(added(R"({"eos_token": {"content": "X"}})", R"({"eos_token": {"content": "Y"}})"), "Y");
  EXPECT_EQ(added(R"({"image_token": "I"})", R"({"image_token": "J"})"), "I");
  EXPECT_EQ(added(R"({"image_token": "I"})", R"({"audio_token": "J"})"), "J I");
}

TEST_F(SpecialTokensTest, RolesGetTheirIdsBeforeLists) {
  EXPECT_EQ(added(R"({"additional_special_tokens": ["C"]})", R"({"eos_token": "Y"})"), "Y C");
}

TEST_F(SpecialTokensTest, TheMapIsIgnoredIfTheConfigurationListsItsTokens) {
  EXPECT_EQ(added(R"({"eos_token": "X", "added_tokens_decoder": {"5": {"content": "Q"}}})",
                  R"({"eos_token": "Y", "pad_token": "P", "extra_special_tokens": ["C"]})"),
            "Q X");
}

TEST_F(SpecialTokensTest, AddedTokensJsonIsReadIfTheConfigurationListsNone) {
  folder_.write("added_tokens.json", R"({"Z": 5})");
  EXPECT_EQ(added("{}", R"({"eos_token": "Y"})"), "Z Y");
  EXPECT_EQ(added(R"({"added_tokens_decoder": {"5": {"content": "Q"}}})"), "Q");
}

TEST_F(SpecialTokensTest, TheTwoNamesOfListsHaveThePrecedenceOfTransformers) {
  const char* const extra = R"({"extra_special_tokens": ["C"]})";
  const char* const old = R"({"additional_special_tokens": ["C"]})";
  const char* const named = R"({"extra_special_tokens": {"audio_token": "C"}})";
  EXPECT_EQ(added(extra, R"({"extra_special_tokens": ["D"]})"), "C D");
  EXPECT_EQ(added(old, R"({"additional_special_tokens": ["D"]})"), "C");
  EXPECT_EQ(added("{}", old), "C");
  EXPECT_EQ(added(old, R"({"extra_special_tokens": ["D"], "additional_special_tokens": ["F"]})"),
            "C D");
  EXPECT_EQ(added(R"({"additional_special_tokens": null})", old), "");
  EXPECT_EQ(added(R"({"additional_special_tokens": ["F"], "extra_special_tokens": ["D"]})"), "D");
  EXPECT_EQ(added(named, R"({"extra_special_tokens": {"audio_token": "D"}})"), "D");
  EXPECT_EQ(added(named, R"({"extra_special_tokens": ["D"]})"), "C D");
  EXPECT_EQ(added(extra, R"({"extra_special_tokens": {"audio_token": "D"}})"), "D");
}

TEST_F(SpecialTokensTest, AValueOfAnotherKindIsAnErrorWithTheFix) {
  const std::string message =
      error_of([&] { load(R"({"extra_special_tokens": "some/path.json"})", "{}"); });
  EXPECT_TRUE(message.ends_with(
      "tokenizer_config.json: extra_special_tokens: got \"some/path.json\", wanted a list of "
      "tokens "
      "or an object of tokens by name; write the tokens themselves there, or remove the key if "
      "tokenizer.json has them"))
      << message;
  EXPECT_NE(error_of([&] {
              load("{}", R"({"additional_special_tokens": 3})");
            }).find("special_tokens_map.json: additional_special_tokens: got integer"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              load(R"({"extra_special_tokens": [3]})", "{}");
            }).find("extra_special_tokens: got integer, wanted a token's text or an object"),
            std::string::npos);
}

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

  // Returns "bos_token=<s> image_token=<image>".
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

TEST_F(TokenNamesTest, EveryNamedTokenIsListed) {
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

TEST_F(TokenNamesTest, AnIdInConfigJsonGivesARoleButNoName) {
  folder_.write("config.json", R"({"bos_token_id": 1})");
  const auto tokenizer = load(R"({"bos_token": null})");
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_TRUE(tokenizer->named_tokens().empty());
}

TEST_F(TokenNamesTest, TheMapOverridesUnlessTheConfigurationListsTokens) {
  folder_.write("special_tokens_map.json", R"({"eos_token": "<eos>", "bos_token": null})");
  EXPECT_EQ(names(R"({"eos_token": "a", "bos_token": "<bos>"})"), "eos_token=<eos>");
  EXPECT_EQ(names(R"({"eos_token": "a", "added_tokens_decoder": {}})"), "eos_token=a");
}

TEST_F(TokenNamesTest, AClassFillsTheNamesThatTheFolderLacks) {
  EXPECT_EQ(names(R"({"tokenizer_class": "GPT2TokenizerFast"})"),
            "bos_token=<|endoftext|> eos_token=<|endoftext|> unk_token=<|endoftext|>");
  EXPECT_EQ(names(R"({"tokenizer_class": "Qwen2Tokenizer", "pad_token": null})"),
            "eos_token=<|endoftext|> unk_token=<|endoftext|>");
  // Defaults outside the vocabulary are ignored.
  EXPECT_EQ(names(R"({"tokenizer_class": "GemmaTokenizer", "eos_token": "a"})"),
            "eos_token=a bos_token=<bos>");
  EXPECT_EQ(names(R"({"tokenizer_class": "PreTrainedTokenizerFast"})"), "");
  const auto tokenizer = load(R"({"tokenizer_class": "GPT2Tokenizer"})");
  EXPECT_EQ(tokenizer->eos_id(), 3);
  EXPECT_TRUE(tokenizer->is_special(3));
}

TEST_F(TokenNamesTest, AWrongTokenIsNamedWithItsKey) {
  EXPECT_NE(error_of([&] { load(R"({"bos_token": 3})"); }).find("tokenizer_config.json: bos_token"),
            std::string::npos);
}

}  // namespace

}  // namespace xrun::special_tokens_test
