// Folders whose tokenizer is a tokenizer.model.

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/text/tokenizer/tokenizer.h"
#include "tests/scratch_folder.h"
#include "tests/tree.h"

namespace xrun::sentencepiece_test {

namespace {

class SentencePieceModelFile : public testing::Test {
 protected:
  void SetUp() override {
    model_ = read_file(source_path("tests/data/tokenizers/sp_bpe/tokenizer.model"));
    folder_.write("tokenizer.model", model_);
  }
  std::shared_ptr<const Tokenizer> load(const std::string& config = "{}") const {
    folder_.write("tokenizer_config.json", config);
    return Tokenizer::load(folder_.path());
  }
  std::string failure(const std::string& model) const {
    folder_.write("tokenizer.model", model);
    std::string text = error_of([&] { Tokenizer::load(folder_.path()); });
    const std::string path = folder_.path().string();
    if (text.starts_with(path)) text.replace(0, path.size(), "DIR");
    return text;
  }
  ScratchFolder folder_;
  std::string model_;
};

TEST_F(SentencePieceModelFile, ByteTokensHaveExactlyTheirByte) {
  const auto tokenizer = load();
  const std::string text = "a\U0001F355b";
  const Encoding e = tokenizer->encode(text);
  std::string bytes;
  for (size_t i = 0; i < e.ids.size(); ++i) {
    const ByteRange r = e.offsets[i];
    if (tokenizer->piece(e.ids[i]).starts_with("<0x")) {
      EXPECT_EQ(r.end - r.begin, 1u);
      bytes += text.substr(r.begin, 1);
    }
  }
  EXPECT_EQ(bytes, "\U0001F355");
}

TEST_F(SentencePieceModelFile, RolesAndSurroundingTokensFollowTheModelAndTheConfig) {
  EncodeOptions post;
  post.add_post_processor = true;
  auto tokenizer = load();
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_EQ(tokenizer->piece(1), "<s>");
  EXPECT_EQ(tokenizer->eos_id(), 2);
  EXPECT_TRUE(tokenizer->is_special(1));
  EXPECT_EQ(tokenizer->leading_bos(), std::vector<int32_t>{1});
  EXPECT_EQ(tokenizer->encode("", post).ids, std::vector<int32_t>{1});
  tokenizer = load(R"({"add_bos_token": false, "add_eos_token": true})");
  EXPECT_EQ(tokenizer->encode("", post).ids, std::vector<int32_t>{2});
  tokenizer = load(R"({"tokenizer_class": "T5Tokenizer"})");
  EXPECT_EQ(tokenizer->encode("", post).ids, std::vector<int32_t>{2});
}

TEST_F(SentencePieceModelFile, AnEosThatIsNotAPieceFollowsTheTextToo) {
  EncodeOptions post;
  post.add_post_processor = true;
  const auto tokenizer = load(R"({"add_eos_token": true, "eos_token": "<|end|>"})");
  const int32_t eos = tokenizer->eos_id().value();
  EXPECT_EQ(tokenizer->piece(eos), "<|end|>");
  EXPECT_EQ(tokenizer->encode("", post).ids, (std::vector<int32_t>{1, eos}));
}

TEST_F(SentencePieceModelFile, AUserDefinedPieceIsPlainTextIfTheConfigCallsItSpecial) {
  const std::string text = "a<|im_start|>b";
  const auto is_in = [&](const Tokenizer& tokenizer, const EncodeOptions& options) {
    const std::vector<int32_t> ids = tokenizer.encode(text, options).ids;
    const int32_t id = tokenizer.id_of("<|im_start|>").value();
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  EncodeOptions special;
  special.all_special = true;
  EXPECT_TRUE(is_in(*load(), {}));
  const auto tokenizer = load(R"({"additional_special_tokens": ["<|im_start|>"]})");
  EXPECT_FALSE(is_in(*tokenizer, {}));
  EXPECT_TRUE(is_in(*tokenizer, special));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text).ids), text);
}

TEST_F(SentencePieceModelFile, AUserDefinedPieceIsPlainTextIfTheClassCallsItSpecial) {
  // One more piece, of protobuf's fields 1 (the text), 2 (the score) and 3 (the kind).
  const std::string piece("\x0a\x06<mask>\x15\0\0\0\0\x18\x04", 15);
  folder_.write("tokenizer.model", model_ + "\x0a\x0f" + piece);
  const auto tokenizer = load(R"({"tokenizer_class": "GemmaTokenizer"})");
  const int32_t id = tokenizer->id_of("<mask>").value();
  EXPECT_TRUE(tokenizer->is_special(id));
  const std::vector<int32_t> ids = tokenizer->encode("a<mask>b").ids;
  EXPECT_EQ(std::count(ids.begin(), ids.end(), id), 0);
  EXPECT_EQ(tokenizer->decode(ids), "a<mask>b");
}

TEST_F(SentencePieceModelFile, TheSpaceBeforeARepairedTextHasAnEmptyRange) {
  const auto tokenizer = load();
  EncodeOptions options;
  options.all_special = true;
  for (const char* text : {"ab<s>\nq", "ab<s>\nq\xff"}) {
    const Encoding e = tokenizer->encode(text, options);
    ASSERT_GT(e.ids.size(), 3u);
    EXPECT_EQ(tokenizer->piece(e.ids[2]), "\u2581");
    EXPECT_EQ(e.offsets[2], (ByteRange{5, 5}));
    EXPECT_EQ(e.offsets[3], (ByteRange{5, 6}));
  }
}

TEST_F(SentencePieceModelFile, WithoutLegacyOnlyTheFirstTextGetsASpace) {
  const auto pieces = [&](const char* config) {
    const auto tokenizer = load(config);
    std::string out;
    for (const int32_t id : tokenizer->encode("a<|im_start|>a").ids) {
      out += std::string(tokenizer->piece(id)) + "|";
    }
    return out;
  };
  EXPECT_EQ(pieces("{}"), "\u2581a|<|im_start|>|\u2581a|");
  EXPECT_EQ(pieces(R"({"legacy": false})"), "\u2581a|<|im_start|>|a|");
}

TEST_F(SentencePieceModelFile, AddedTokensOfTheConfigGetIdsAfterThePieces) {
  const auto tokenizer = load(R"({"added_tokens_decoder": {"5000": {"content": "<x>"}}})");
  EXPECT_EQ(tokenizer->vocab_size(), 5001);
  EXPECT_EQ(tokenizer->encode("<x>").ids, std::vector<int32_t>{5000});
}

TEST_F(SentencePieceModelFile, AFileThatIsNotAModelIsAnError) {
  EXPECT_EQ(failure(""),
            "DIR/tokenizer.model: this is not a SentencePiece model: it has no pieces");
  EXPECT_EQ(
      failure("\x0a\xff"),
      "DIR/tokenizer.model: this is not a SentencePiece model, or it is damaged (at byte 2 of 2)");
  const std::string half = failure(model_.substr(0, model_.size() / 2));
  EXPECT_TRUE(half.starts_with(
      "DIR/tokenizer.model: this is not a SentencePiece model, or it is damaged (at byte "))
      << half;
}

}  // namespace

}  // namespace xrun::sentencepiece_test
