// WordLevel: a piece is one token, or the unknown token.

#include "core/base/error.h"
#include "core/text/tokenizer/vocabulary_json.h"

namespace xrun {

namespace {

class WordLevel : public TokenModel {
 public:
  WordLevel(Vocabulary vocabulary, std::string unk_token)
      : vocabulary_(std::move(vocabulary)),
        unk_token_(std::move(unk_token)),
        unk_id_(vocabulary_.find(unk_token_)) {}

  void tokenize(std::string_view text, std::span<const ByteRange> pieces,
                std::vector<ModelToken>& out) const override {
    for (const ByteRange piece : pieces) {
      std::optional<int32_t> id =
          vocabulary_.find(text.substr(piece.begin, piece.end - piece.begin));
      if (!id) id = unk_id_;
      XRUN_CHECK(id.has_value(),
                 "the tokenizer's unknown token \"{}\" is not in its vocabulary, "
                 "but a text needs it",
                 unk_token_);
      out.push_back({*id, piece.begin, piece.end});
    }
  }
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  Vocabulary vocabulary_;
  std::string unk_token_;
  std::optional<int32_t> unk_id_;
};

std::unique_ptr<const TokenModel> read_word_level(const ModelSource& source) {
  const bool named = !source.option("unk_token").is_null();
  return std::make_unique<WordLevel>(
      read_vocabulary(source.member("vocab"), source.where + ".vocab"),
      named ? source.text("unk_token") : "<unk>");
}

std::unique_ptr<const TokenModel> make(const ModelSource& source) {
  return read_model(source, &read_word_level);
}

const bool kAdded = add_model_type("WordLevel", make);

}  // namespace

}  // namespace xrun
