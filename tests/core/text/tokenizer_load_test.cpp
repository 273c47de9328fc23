// What a folder may hold, and what is said about folders that are wrong.

#include <gtest/gtest.h>

#include <functional>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/text/byte_alphabet.h"
#include "core/text/tokenizer.h"
#include "tests/core/data/scratch_folder.h"

namespace xrun {

namespace {

// A byte-level vocabulary: the 256 bytes, then "he" (256), "hel" (257), "12" (258).
Json byte_vocabulary() {
  Json vocab = Json::object();
  for (int b = 0; b < 256; ++b) {
    std::string spelling;
    const char byte = char(b);
    append_spelled(spelling, {&byte, 1});
    vocab.set(spelling, b);
  }
  vocab.set("he", 256);
  vocab.set("hel", 257);
  vocab.set("12", 258);
  return vocab;
}

constexpr const char* kMerges = "#version: 0.2\nh e\nhe l\n1 2\n";

// A tokenizer.json of the characters a, b, c and their merges.
Json small_tokenizer() {
  return parse_json(R"({"version": "1.0", "added_tokens": [], "normalizer": null,
      "pre_tokenizer": null, "post_processor": null, "decoder": {"type": "Fuse"},
      "model": {"type": "BPE", "dropout": null, "unk_token": null, "fuse_unk": false,
        "byte_fallback": false, "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4},
        "merges": ["a b", "ab c"]}})", "small");
}

class TokenizerLoad : public testing::Test {
 protected:
  std::shared_ptr<const Tokenizer> load() const { return Tokenizer::load(folder_.path()); }
  // Returns what load() says, without the folder's own name.
  std::string failure() const {
    std::string text = error_of([&] { load(); });
    const std::string path = folder_.path().string();
    for (size_t at; (at = text.find(path)) != std::string::npos;) {
      text.replace(at, path.size(), "DIR");
    }
    return text;
  }
  void write(const std::string& name, const std::string& text) const { folder_.write(name, text); }
  void write(const Json& json) const { write("tokenizer.json", dump_json(json)); }
  void write_vocab_and_merges() const {
    write("vocab.json", dump_json(byte_vocabulary()));
    write("merges.txt", kMerges);
  }
  ScratchFolder folder_;
};

TEST_F(TokenizerLoad, AFolderWithoutATokenizerIsAnError) {
  EXPECT_EQ(failure(),
            "DIR: there is no tokenizer: neither tokenizer.json, nor vocab.json and merges.txt, "
            "nor tokenizer.model");
}

TEST_F(TokenizerLoad, AFolderThatCannotBeLookedAtIsNamedWithTheReason) {
  const std::string endless = folder_.path() / std::string(300, 'a');
  EXPECT_EQ(error_of([&] { Tokenizer::load(endless); }),
            endless + "/tokenizer_config.json: cannot be looked at: File name too long");
}

TEST_F(TokenizerLoad, VocabAndMergesAreReadAsTheirClassSays) {
  write_vocab_and_merges();
  const auto ids = [&](const char* config, const std::string& text) {
    write("tokenizer_config.json", config);
    return load()->encode(text).ids;
  };
  // GPT-2 keeps a run of digits, Qwen2 takes them one by one and composes accents.
  EXPECT_EQ(ids(R"({"tokenizer_class": "GPT2Tokenizer"})", "hel12"),
            (std::vector<int32_t>{257, 258}));
  EXPECT_EQ(ids(R"({"tokenizer_class": "Qwen2TokenizerFast"})", "hel12"),
            (std::vector<int32_t>{257, '1', '2'}));
  EXPECT_EQ(ids(R"({"tokenizer_class": "Qwen2Tokenizer"})", "e\u0301"),
            (std::vector<int32_t>{0xC3, 0xA9}));
  EXPECT_EQ(ids(R"({"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": true})", "h"),
            (std::vector<int32_t>{' ', 'h'}));
}

TEST_F(TokenizerLoad, APrefixSpaceThatTokenizerJsonContradictsIsRefused) {
  const auto stages = [&](const char* pre_tokenizer) {
    Json json = small_tokenizer();
    json.set("pre_tokenizer", parse_json(pre_tokenizer, ""));
    write(json);
  };
  const char* wanted = R"({"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": true})";
  stages(R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})");
  write("tokenizer_config.json", wanted);
  EXPECT_EQ(failure(),
            "DIR/tokenizer_config.json: add_prefix_space is true, but tokenizer.json does not put "
            "a space before a text; make them agree, or remove add_prefix_space to follow "
            "tokenizer.json");
  write("tokenizer_config.json",
        R"({"tokenizer_class": "PreTrainedTokenizerFast", "add_prefix_space": true})");
  EXPECT_EQ(failure(), "");
  write("tokenizer_config.json", wanted);
  stages(R"({"type": "Sequence", "pretokenizers": [
             {"type": "ByteLevel", "add_prefix_space": true, "use_regex": true}]})");
  EXPECT_EQ(failure(), "");
  write("tokenizer_config.json",
        R"({"tokenizer_class": "LlamaTokenizer", "add_prefix_space": false})");
  stages(R"({"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first"})");
  EXPECT_NE(failure().find("tokenizer.json puts a space"), std::string::npos);
  stages(R"({"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "never"})");
  EXPECT_EQ(failure(), "");
}

TEST_F(TokenizerLoad, DamagedMergesAreAnErrorOfFinishLoadingAndOfEveryText) {
  write_vocab_and_merges();
  write("merges.txt", "h e\nh e l\n");
  const auto tokenizer = load();
  EXPECT_EQ(tokenizer->vocab_size(), 259);
  for (int i = 0; i < 2; ++i) {
    for (const auto& call : {std::function<void()>([&] { tokenizer->finish_loading(); }),
                             std::function<void()>([&] { tokenizer->encode("hi"); })}) {
      try {
        call();
        FAIL() << "merges were read";
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("merges.txt, merge 2: got \"h e l\""),
                  std::string::npos)
            << error.what();
      }
    }
  }
}

TEST_F(TokenizerLoad, WithoutAClassTheModelTypeDecides) {
  write_vocab_and_merges();
  write("config.json", R"({"model_type": "qwen2"})");
  EXPECT_EQ(load()->encode("12").ids, (std::vector<int32_t>{'1', '2'}));
  write("config.json", R"({"model_type": "bloom"})");
  EXPECT_NE(failure().find("the model_type bloom does not tell"), std::string::npos);
}

TEST_F(TokenizerLoad, WithoutAnyNameAByteVocabularyIsGpt2s) {
  write_vocab_and_merges();
  EXPECT_EQ(load()->encode("12").ids, (std::vector<int32_t>{258}));
  write("vocab.json", R"({"a": 0, "b": 1})");
  write("merges.txt", "");
  EXPECT_NE(failure().find("vocab.json does not spell bytes as GPT-2's does"), std::string::npos);
}

TEST_F(TokenizerLoad, AnUnknownClassIsNamedWithTheKnownOnes) {
  write_vocab_and_merges();
  write("tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer"})");
  EXPECT_EQ(failure(),
            "DIR/tokenizer_config.json: tokenizer_class: BertTokenizer is not known without a "
            "tokenizer.json; known are GPT2Tokenizer, Qwen2Tokenizer, Qwen3Tokenizer, "
            "CodeGenTokenizer, GPTNeoXTokenizer");
}

TEST_F(TokenizerLoad, RolesAndAddedTokensComeFromTheSettings) {
  write(small_tokenizer());
  write("tokenizer_config.json", R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>",
      "pad_token": null, "chat_template": [{"name": "default", "template": "T"}],
      "model_max_length": 1000000000000000019884624838656,
      "added_tokens_decoder": {"5": {"content": "<s>", "special": true},
                               "7": {"content": "plain", "special": false}}})");
  const auto tokenizer = load();
  EXPECT_EQ(tokenizer->bos_id(), 5);
  EXPECT_EQ(tokenizer->eos_token(), "</s>");
  EXPECT_EQ(tokenizer->eos_id(), 8);  // the next free id
  EXPECT_FALSE(tokenizer->pad_id());
  EXPECT_EQ(tokenizer->vocab_size(), 9);
  EXPECT_TRUE(tokenizer->is_special(8));
  EXPECT_FALSE(tokenizer->is_special(7));
  EXPECT_EQ(tokenizer->piece(6), "");
  EXPECT_EQ(tokenizer->chat_template(), "T");
  EXPECT_EQ(tokenizer->encode("abcplainab").ids, (std::vector<int32_t>{4, 7, 3}));
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{5, 4, 6, 8}, true), "abc");
  write("chat_template.jinja", "J");
  EXPECT_EQ(load()->chat_template(), "J");
}

TEST_F(TokenizerLoad, TheDigestFollowsTheTokensAndNotTheTemplate) {
  write(small_tokenizer());
  const std::string digest = load()->digest();
  write("tokenizer_config.json", R"({"chat_template": "x"})");
  const std::string with_template = load()->digest();
  write("tokenizer_config.json", R"({"chat_template": "y"})");
  EXPECT_EQ(load()->digest(), with_template);
  write("tokenizer_config.json", R"({"bos_token": "a"})");
  EXPECT_NE(load()->digest(), with_template);
  EXPECT_EQ(digest.size(), 32u);
}

TEST_F(TokenizerLoad, AnUnsupportedComponentIsNamedWithItsPlace) {
  Json json = small_tokenizer();
  json.set("normalizer", parse_json(R"({"type": "Sequence", "normalizers": [
      {"type": "NFC"}, {"type": "Uppercase"}]})", ""));
  write(json);
  EXPECT_EQ(failure(),
            "DIR/tokenizer.json: normalizer.normalizers[1]: the type \"Uppercase\" is not "
            "supported; supported are BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, "
            "Nmt, Precompiled, Prepend, Replace, Sequence, Strip, StripAccents");
}

struct BadModel {
  const char* model;  // members that replace those of the small tokenizer
  const char* message;
};

class TokenizerLoadBadModel : public TokenizerLoad, public testing::WithParamInterface<BadModel> {};

TEST_P(TokenizerLoadBadModel, SaysWhatIsWrongAndWhere) {
  Json json = small_tokenizer();
  const Json bad = parse_json(GetParam().model, "bad");
  for (const auto& [key, value] : bad.as_object()) json.find("model")->set(key, value);
  write(json);
  EXPECT_EQ(failure(), std::string("DIR/tokenizer.json: ") + GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, TokenizerLoadBadModel,
    testing::Values(
        BadModel{R"({"merges": ["a x"]})",
                 "model.merges[0]: the piece \"x\" is not in the vocabulary"},
        BadModel{R"({"merges": ["a b", ["b", "c"]]})",
                 "model.merges[1]: the piece \"bc\" is not in the vocabulary"},
        BadModel{R"({"merges": ["ab"]})",
                 "model.merges, merge 1: got \"ab\", wanted two pieces with one space between"},
        BadModel{R"({"merges": [["a", "b", "c"]]})",
                 "model.merges, merge 1: more than two pieces"},
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
                 "model: the type \"Trigram\" is not supported; supported are BPE, Unigram, "
                 "WordLevel, WordPiece"},
        BadModel{R"({"type": "Unigram", "vocab": [["a"]]})",
                 "model.vocab[0]: wanted a piece and its score"},
        BadModel{R"({"type": "Unigram", "vocab": [["a", 0, 1]]})",
                 "model.vocab[0]: more than a piece and its score"},
        BadModel{R"({"type": "Unigram", "vocab": [["a", 0]], "unk_id": 1})",
                 "model.unk_id: got 1, wanted an id of the 1 pieces"},
        BadModel{R"({"type": "WordPiece", "max_input_chars_per_word": "x"})",
                 "model.max_input_chars_per_word: got \"x\", wanted a number of characters"}));

TEST_F(TokenizerLoad, APieceThatAppearsTwiceIsAnError) {
  std::string text = dump_json(small_tokenizer());
  text.replace(text.find("\"c\":2"), 5, "\"c\":2,\"a\":9");
  write("tokenizer.json", text);
  EXPECT_EQ(failure(),
            "DIR/tokenizer.json: model.vocab: the piece \"a\" appears twice, as ids 0 and 9");
}

TEST_F(TokenizerLoad, MergesMayStandBeforeTheVocabulary) {
  std::string text = dump_json(small_tokenizer());
  const std::string merges = "\"merges\":[\"a b\",\"ab c\"]";
  text.erase(text.find("," + merges), merges.size() + 1);
  text.insert(text.find("\"vocab\""), merges + ",");
  write("tokenizer.json", text);
  EXPECT_EQ(load()->encode("abcab").ids, (std::vector<int32_t>{4, 3}));
}

TEST_F(TokenizerLoad, AddedTokensMustAgreeWithTheVocabulary) {
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

TEST_F(TokenizerLoad, BrokenJsonIsReportedWithLineAndColumn) {
  write("tokenizer.json", "{\n  \"model\": {,}\n}");
  EXPECT_EQ(failure().substr(0, 24), "DIR/tokenizer.json:2:13:");
  write("tokenizer.json", "[]");
  EXPECT_NE(failure(), "");
  write("tokenizer.json", "");
  EXPECT_NE(failure(), "");
  write("tokenizer.json", "{}");
  EXPECT_EQ(failure(), "DIR/tokenizer.json: the key \"model\" is missing");
}

TEST_F(TokenizerLoad, AnUnknownCharacterWithoutAnUnknownTokenSaysSoWhenItIsNeeded) {
  Json json = small_tokenizer();
  json.find("model")->set("unk_token", "<unk>");
  write(json);
  EXPECT_EQ(load()->encode("abc").ids, std::vector<int32_t>{4});
  EXPECT_EQ(error_of([&] { load()->encode("abx"); }),
            "the tokenizer's unknown token \"<unk>\" is not in its vocabulary, but a text needs "
            "it");
}

}  // namespace

}  // namespace xrun
