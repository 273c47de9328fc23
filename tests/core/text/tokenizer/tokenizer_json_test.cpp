// Valid and invalid tokenizer.json files.

#include "tests/core/text/tokenizer/tokenizer_folder_fixture.h"

namespace xrun::tokenizer_json_test {

namespace {

using TokenizerJson = TokenizerFolderTest;

TEST_F(TokenizerJson, AnUnsupportedComponentIsNamedWithItsPath) {
  Json json = small_tokenizer();
  json.set("normalizer", parse_json(R"({"type": "Sequence", "normalizers": [
      {"type": "NFC"}, {"type": "Uppercase"}]})",
                                    ""));
  write(json);
  EXPECT_EQ(failure(),
            "DIR/tokenizer.json: normalizer.normalizers[1]: the type \"Uppercase\" is not "
            "supported; supported: BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, "
            "Precompiled, Prepend, Replace, Sequence, Strip, StripAccents");
}

struct BadModel {
  const char* model;  // members that replace those of the small tokenizer
  const char* message;
};

class TokenizerJsonBadModel : public TokenizerFolderTest,
                              public testing::WithParamInterface<BadModel> {};

TEST_P(TokenizerJsonBadModel, IsAnErrorWithItsPath) {
  Json json = small_tokenizer();
  const Json bad = parse_json(GetParam().model, "bad");
  for (const auto& [key, value] : bad.as_object()) json.find("model")->set(key, value);
  write(json);
  EXPECT_EQ(failure(), std::string("DIR/tokenizer.json: ") + GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, TokenizerJsonBadModel,
    testing::Values(
        BadModel{R"({"vocab": []})", "model: The JSON element does not have the requested type."},
        BadModel{R"({"merges": ["a x"]})",
                 "model.merges[0]: the piece \"x\" is not in the vocabulary"},
        BadModel{R"({"merges": ["a b", ["b", "c"]]})",
                 "model.merges[1]: the piece \"bc\" is not in the vocabulary"},
        BadModel{R"({"merges": ["ab"]})",
                 "model.merges, merge 1: got \"ab\", wanted two pieces with one space between"},
        BadModel{R"({"merges": [["a", "b", "c"]]})", "model.merges, merge 1: more than two pieces"},
        BadModel{R"({"vocab": {"a": -1}, "merges": []})",
                 "model.vocab: the id of \"a\" is -1, wanted 0 to 8388607"},
        BadModel{R"({"vocab": {"a": 8388608}, "merges": []})",
                 "model.vocab: the id of \"a\" is 8388608, wanted 0 to 8388607"},
        BadModel{R"({"vocab": {"a": "0"}, "merges": []})",
                 "model.vocab: the id of \"a\" is not an integer"},
        BadModel{R"({"vocab": {"a": 0, "b": 0}, "merges": []})",
                 "model.vocab: id 0 belongs to two pieces, \"a\" and \"b\""},
        BadModel{R"({"dropout": 0.1})",
                 "model.dropout: random merges are not supported; set it to null"},
        BadModel{R"({"end_of_word_suffix": "</w>", "byte_fallback": true})",
                 "model: byte_fallback with a continuing_subword_prefix or an end_of_word_suffix "
                 "is not supported"},
        BadModel{R"({"continuing_subword_prefix": "##"})",
                 "model.merges[0]: the piece \"b\" does not begin with the "
                 "continuing_subword_prefix"},
        BadModel{R"({"fuse_unk": 1})", "model.fuse_unk: got integer, wanted a boolean"},
        BadModel{R"({"type": "Trigram"})",
                 "model: the type \"Trigram\" is not supported; supported: BPE, Unigram, "
                 "WordLevel, WordPiece"},
        BadModel{R"({"type": "Unigram", "vocab": [["a"]]})",
                 "model.vocab[0]: wanted a piece and its score"},
        BadModel{R"({"type": "Unigram", "vocab": [["a", 0, 1]]})",
                 "model.vocab[0]: more than a piece and its score"},
        BadModel{R"({"type": "Unigram", "vocab": [["a", 0]], "unk_id": 1})",
                 "model.unk_id: got 1, wanted an id of the 1 pieces"},
        BadModel{R"({"type": "WordPiece", "max_input_chars_per_word": "x"})",
                 "model.max_input_chars_per_word: got \"x\", wanted a number of characters"}));

TEST_F(TokenizerJson, APieceThatAppearsTwiceIsAnError) {
  std::string text = dump_json(small_tokenizer());
  text.replace(text.find("\"c\":2"), 5, "\"c\":2,\"a\":9");
  write("tokenizer.json", text);
  EXPECT_EQ(failure(),
            "DIR/tokenizer.json: model.vocab: the piece \"a\" appears twice, as ids 0 and 9");
}

TEST_F(TokenizerJson, MergesMayPrecedeTheVocabulary) {
  std::string text = dump_json(small_tokenizer());
  const std::string merges = "\"merges\":[\"a b\",\"ab c\"]";
  text.erase(text.find("," + merges), merges.size() + 1);
  text.insert(text.find("\"vocab\""), merges + ",");
  write("tokenizer.json", text);
  EXPECT_EQ(load()->encode("abcab").ids, (std::vector<int32_t>{4, 3}));
}

TEST_F(TokenizerJson, AddedTokensMustAgreeWithTheVocabulary) {
  Json json = small_tokenizer();
  json.set("added_tokens", parse_json(R"([{"id": 1, "content": "<x>", "special": true}])", ""));
  write(json);
  EXPECT_EQ(failure(), "DIR: the added token \"<x>\" has the id 1 of the piece \"b\"");
  json.set("added_tokens", parse_json(R"([{"id": 9, "content": "ab", "special": true}])", ""));
  write(json);
  EXPECT_EQ(failure(), "DIR: the added token \"ab\" has id 9, but the vocabulary has it as 3");
  json.set("added_tokens",
           parse_json(R"([{"id": 9, "content": "x"}, {"id": 9, "content": "y"}])", ""));
  write(json);
  EXPECT_EQ(failure(), "DIR: the added tokens \"x\" and \"y\" share the id 9");
}

TEST_F(TokenizerJson, BrokenJsonIsReportedWithLineAndColumn) {
  write("tokenizer.json", "{\n  \"model\": {,}\n}");
  EXPECT_EQ(failure().substr(0, 24), "DIR/tokenizer.json:2:13:");
  std::string text = dump_json(small_tokenizer());
  text.replace(text.find(",\"c\":2"), 1, " ");
  write("tokenizer.json", text);
  EXPECT_EQ(failure(),
            fmt::format("DIR/tokenizer.json:1:{}: is not valid JSON: expected ',' or '}}'",
                        text.find("\"c\":2") + 1));
  write("tokenizer.json", "");
  EXPECT_EQ(failure(), "DIR/tokenizer.json:1:1: is not valid JSON: the text ends inside a value");
  write("tokenizer.json", "{}");
  EXPECT_EQ(failure(), "DIR/tokenizer.json: the key \"model\" is missing");
}

TEST_F(TokenizerJson, AFileOrAModelThatIsNotAnObjectIsNamed) {
  write("tokenizer.json", "[]");
  EXPECT_EQ(failure(), "DIR/tokenizer.json: got array, wanted an object");
  write("tokenizer.json", "7");
  EXPECT_EQ(failure(), "DIR/tokenizer.json: got integer, wanted an object");
  write("tokenizer.json", R"({"model": [1]})");
  EXPECT_EQ(failure(), "DIR/tokenizer.json: model: got array, wanted an object");
}

TEST_F(TokenizerJson, AMissingUnknownTokenIsAnErrorWhenATextNeedsIt) {
  Json json = small_tokenizer();
  json.find("model")->set("unk_token", "<unk>");
  write(json);
  EXPECT_EQ(load()->encode("abc").ids, std::vector<int32_t>{4});
  EXPECT_EQ(error_of([&] { load()->encode("abx"); }),
            "the tokenizer's unknown token \"<unk>\" is not in its vocabulary, but a text needs "
            "it");
}

TEST_F(TokenizerJson, AKeyThatAppearsTwiceIsAnError) {
  for (const char* key :
       {"normalizer", "pre_tokenizer", "post_processor", "decoder", "added_tokens", "model"}) {
    const Json json = small_tokenizer();
    std::string text = dump_json(json);
    text.insert(1, fmt::format("\"{}\":{},", key, dump_json(json.at(key))));
    write("tokenizer.json", text);
    EXPECT_EQ(failure(), fmt::format("DIR/tokenizer.json: the key \"{}\" appears twice", key));
  }
}

TEST_F(TokenizerJson, NoTextHasTheIdOfAnEmptyPiece) {
  Json json = small_tokenizer();
  json.set("model", parse_json(R"({"type": "Unigram", "unk_id": 0, "vocab":
      [["<unk>", 0], ["a", -1], ["", -2], ["b", -1]]})",
                               ""));
  write(json);
  EXPECT_EQ(load()->encode("ab").ids, (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(load()->decode(std::vector<int32_t>{1, 2, 3}), "ab");
  EXPECT_EQ(load()->vocab_size(), 4);
  json = small_tokenizer();
  json.find("model")->set("vocab", parse_json(R"({"a": 0, "": 1, "b": 2})", ""));
  json.find("model")->set("merges", Json::array());
  write(json);
  EXPECT_EQ(load()->encode("ab").ids, (std::vector<int32_t>{0, 2}));
}

TEST_F(TokenizerJson, SplittingAtAnEmptyStringCutsEveryCharacter) {
  Json json = small_tokenizer();
  json.set("pre_tokenizer", parse_json(R"({"type": "Split", "pattern": {"String": ""},
      "behavior": "Isolated", "invert": false})",
                                       ""));
  write(json);
  EXPECT_EQ(load()->encode("abc").ids, (std::vector<int32_t>{0, 1, 2}));
}

TEST_F(TokenizerJson, StagesThatMultiplyATextAreAnErrorWithTheirPath) {
  const Json twice = parse_json(R"({"type": "Replace", "pattern": {"String": "a"},
      "content": "aa"})",
                                "");
  Json json = small_tokenizer();
  json.set("normalizer",
           Json(Json::Object{{"type", "Sequence"}, {"normalizers", Json::Array(60, twice)}}));
  write(json);
  EXPECT_EQ(failure_of([&] { load()->encode("abc"); }),
            "DIR/tokenizer.json: normalizer.normalizers[20]: a text grows beyond 1048768 bytes, 64 "
            "times its size plus 1 MiB");
  Json once = twice;
  once.set("content", std::string(100'000, 'a'));
  json.set("normalizer", once);
  write(json);
  EXPECT_EQ(failure_of([&] { load()->encode(std::string(1000, 'a')); }).substr(0, 46),
            "the tokenizer's normalizer: a text grows beyon");
  json.set("normalizer", nullptr);
  const Json spells = parse_json(R"({"type": "ByteLevel", "add_prefix_space": false,
      "use_regex": false})",
                                 "");
  json.set("pre_tokenizer",
           Json(Json::Object{{"type", "Sequence"}, {"pretokenizers", Json::Array(60, spells)}}));
  write(json);
  EXPECT_NE(failure_of([&] { load()->encode("é"); }).find("pretokenizers["), std::string::npos);
}

TEST_F(TokenizerJson, AddedTokensThatThePackageNumbersOtherwiseAreReported) {
  Json json = small_tokenizer();
  json.set("added_tokens", parse_json(R"([{"id": 9, "content": "<x>", "special": true}])", ""));
  write(json);
  EXPECT_EQ(load()->notice(),
            "the added token \"<x>\" has the id 9 in tokenizer.json, which is kept; transformers "
            "gives it 5");
  EXPECT_EQ(load()->vocab_size(), 10);
}

}  // namespace

}  // namespace xrun::tokenizer_json_test
