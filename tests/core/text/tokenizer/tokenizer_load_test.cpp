// Valid and invalid model folders.

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "core/text/tokenizer/byte_alphabet.h"
#include "core/text/tokenizer/zeroed_buffer.h"
#include "tests/core/text/tokenizer/tokenizer_folder_fixture.h"
#include "tests/error_of.h"

namespace xrun::tokenizer_load_test {

namespace {

// Returns a byte-level vocabulary: the 256 bytes, then "he" (256), "hel" (257), "12" (258).
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

class TokenizerLoad : public TokenizerFolderTest {
 protected:
  void write_vocab_and_merges() const {
    write("vocab.json", dump_json(byte_vocabulary()));
    write("merges.txt", kMerges);
  }
};

TEST_F(TokenizerLoad, AFolderWithoutATokenizerIsAnError) {
  EXPECT_EQ(failure(),
            "DIR: there is no tokenizer: neither tokenizer.json, nor vocab.json and merges.txt, "
            "nor tokenizer.model");
}

TEST_F(TokenizerLoad, AFolderThatCannotBeReadIsNamedWithTheReason) {
  const std::string endless = folder_.path() / std::string(300, 'a');
  EXPECT_EQ(error_of([&] { Tokenizer::load(endless); }),
            endless + "/tokenizer_config.json: cannot be examined: File name too long");
}

TEST_F(TokenizerLoad, TheClassSelectsTheStagesOfVocabAndMerges) {
  write_vocab_and_merges();
  const auto ids = [&](const char* config, const std::string& text) {
    write("tokenizer_config.json", config);
    return load()->encode(text).ids;
  };
  // GPT-2 keeps a run of digits; Qwen2 separates digits and composes accents.
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

TEST_F(TokenizerLoad, DamagedMergesFailInFinishLoadingAndInEveryText) {
  write_vocab_and_merges();
  write("merges.txt", "h e\nh e l\n");
  const auto tokenizer = load();
  EXPECT_EQ(tokenizer->vocab_size(), 259);
  for (int i = 0; i < 2; ++i) {
    for (const auto& call : {std::function<void()>([&] { tokenizer->finish_loading(); }),
                             std::function<void()>([&] { tokenizer->encode("hi"); })}) {
      EXPECT_TRUE(throws<Error>("merges.txt, merge 2: got \"h e l\"", [&] { call(); }));
    }
  }
}

TEST_F(TokenizerLoad, WithoutAClassTheModelTypeDecides) {
  write_vocab_and_merges();
  write("config.json", R"({"model_type": "qwen2"})");
  EXPECT_EQ(load()->encode("12").ids, (std::vector<int32_t>{'1', '2'}));
  write("config.json", R"({"model_type": "bloom"})");
  EXPECT_NE(failure().find("the model_type bloom implies none; set tokenizer_class to one of"),
            std::string::npos);
}

TEST_F(TokenizerLoad, AnUnnamedByteVocabularyIsReadAsGpt2) {
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
            "DIR/tokenizer_config.json: tokenizer_class: BertTokenizer is not supported without a "
            "tokenizer.json; supported: GPT2Tokenizer, Qwen2Tokenizer, Qwen3Tokenizer, "
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
  EXPECT_EQ(tokenizer->eos_id(), 8);  // the next free id
  EXPECT_EQ(tokenizer->piece(8), "</s>");
  EXPECT_FALSE(tokenizer->pad_id());
  EXPECT_EQ(tokenizer->vocab_size(), 9);
  EXPECT_TRUE(tokenizer->is_special(8));
  EXPECT_FALSE(tokenizer->is_special(7));
  EXPECT_EQ(tokenizer->piece(6), "");
  EXPECT_EQ(*find_text(tokenizer->chat_templates(), "default"), "T");
  EXPECT_EQ(tokenizer->encode("abcplainab").ids, (std::vector<int32_t>{4, 7, 3}));
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{5, 4, 6, 8}, true), "abc");
  write("chat_template.jinja", "J");
  EXPECT_EQ(*find_text(load()->chat_templates(), "default"), "J");
}

TEST_F(TokenizerLoad, AGitLfsPointerHasItsOwnMessage) {
  for (const char* name : {"tokenizer.model", "tokenizer.json"}) {
    write(name, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
    EXPECT_EQ(failure(), fmt::format("DIR/{}: is a Git LFS pointer, not the file itself; "
                                     "fetch it with git lfs pull",
                                     name));
  }
}

TEST_F(TokenizerLoad, AFolderInPlaceOfAFileIsAnErrorThatSaysSo) {
  make_dirs(folder_.path() / "tokenizer.json");
  EXPECT_EQ(failure(), "DIR/tokenizer.json: is a folder, wanted a file");
}

// Files of sysfs state a size of one page and end after a few bytes, like a file that shrinks while
// it is read.
TEST_F(TokenizerLoad, AFileThatShrankIsAnErrorThatSaysSo) {
  const char* const kShort = "/sys/devices/system/cpu/possible";
  if (!std::filesystem::exists(kShort)) GTEST_SKIP() << kShort << " does not exist";
  const std::string error = error_of([&] { PaddedFile(kShort, 1 << 20); });
  EXPECT_NE(error.find(": the file is shorter than when it was opened: "), std::string::npos)
      << error;
  EXPECT_NE(error.find(" bytes instead of "), std::string::npos) << error;
}

TEST_F(TokenizerLoad, TheDigestCoversTokensButNotTheTemplate) {
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

TEST_F(TokenizerLoad, TheDigestCoversAnEosThatOnlyConfigJsonNames) {
  write(small_tokenizer());
  const auto digest = [&](const char* config) {
    write("config.json", config);
    return load()->digest();
  };
  const std::string first = digest(R"({"eos_token_id": 1})");
  EXPECT_NE(digest(R"({"eos_token_id": 2})"), first);
  EXPECT_EQ(digest(R"({"eos_token_id": [1, 2], "hidden_size": 8})"), first);
  write("tokenizer_config.json", R"({"eos_token": "c"})");
  EXPECT_EQ(digest(R"({"eos_token_id": 1})"), digest(R"({"eos_token_id": 2})"));
}

}  // namespace

}  // namespace xrun::tokenizer_load_test
