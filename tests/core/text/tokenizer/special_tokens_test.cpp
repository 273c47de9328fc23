// Which tokens two files name, and their ids: as transformers 5.23 gives them for a tokenizer.json
// of five pieces.

#include "core/text/tokenizer/special_tokens.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/data/rows/scratch_folder.h"
#include "tests/core/text/chat/template_fixture.h"

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

  // The pieces behind the vocabulary: "C D".
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

TEST_F(SpecialTokensTest, ANameThatTheMapGivesAgainIsOneTokenTheMaps) {
  EXPECT_EQ(added(R"({"eos_token": "X", "bos_token": "<bos>"})", R"({"eos_token": "Y"})"), "Y");
  EXPECT_EQ(added(R"({"eos_token": "X"})", R"({"eos_token": null})"), "");
  EXPECT_EQ(added(R"({"eos_token": {"content": "X"}})", R"({"eos_token": {"content": "Y"}})"), "Y");
  EXPECT_EQ(added(R"({"image_token": "I"})", R"({"image_token": "J"})"), "I");
  EXPECT_EQ(added(R"({"image_token": "I"})", R"({"audio_token": "J"})"), "J I");
}

TEST_F(SpecialTokensTest, RolesGetTheirIdsBeforeLists) {
  EXPECT_EQ(added(R"({"additional_special_tokens": ["C"]})", R"({"eos_token": "Y"})"), "Y C");
}

TEST_F(SpecialTokensTest, AMapSaysNothingBesideAConfigurationThatListsItsTokens) {
  EXPECT_EQ(added(R"({"eos_token": "X", "added_tokens_decoder": {"5": {"content": "Q"}}})",
                  R"({"eos_token": "Y", "pad_token": "P", "extra_special_tokens": ["C"]})"),
            "Q X");
}

TEST_F(SpecialTokensTest, AddedTokensJsonIsReadWhereTheConfigurationListsNone) {
  folder_.write("added_tokens.json", R"({"Z": 5})");
  EXPECT_EQ(added("{}", R"({"eos_token": "Y"})"), "Z Y");
  EXPECT_EQ(added(R"({"added_tokens_decoder": {"5": {"content": "Q"}}})"), "Q");
}

TEST_F(SpecialTokensTest, TheTwoNamesOfListsAreTakenAsTransformersTakesThem) {
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

TEST_F(SpecialTokensTest, WhatIsNeitherAListNorAnObjectIsRefusedWithTheWayOut) {
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

}  // namespace

}  // namespace xrun::special_tokens_test
