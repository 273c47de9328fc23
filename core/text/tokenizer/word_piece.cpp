// WordPiece: the longest piece of the vocabulary that begins a word, then the longest one that goes
// on, spelled with a prefix; a word that cannot be cut so, or is too long, is unknown as a whole.

#include <algorithm>

#include "core/base/error.h"
#include "core/text/tokenizer/piece_cache.h"
#include "core/text/unicode/utf8_cursor.h"
#include "core/text/tokenizer/vocabulary_json.h"

namespace xrun {

namespace {

struct WordPieceOptions {
  std::string unk_token = "[UNK]";
  std::string prefix = "##";
  int64_t max_characters = 100;  // of a word
};

class WordPiece : public TokenModel {
 public:
  WordPiece(Vocabulary vocabulary, WordPieceOptions options)
      : vocabulary_(std::move(vocabulary)),
        options_(std::move(options)),
        unk_id_(vocabulary_.find(options_.unk_token)),
        serial_(PieceCache::next_serial()) {
    for (int32_t id = 0; id < vocabulary_.size(); ++id) {
      longest_ = std::max(longest_, vocabulary_.piece(id).size());
    }
  }

  void tokenize(std::string_view text, std::span<const ByteRange> pieces,
                std::vector<ModelToken>& out) const override {
    PieceCache::of(serial_).tokenize(
        text, pieces, out,
        [this](std::string_view word, std::vector<ModelToken>& tokens) { cut(word, tokens); });
  }
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  void cut(std::string_view word, std::vector<ModelToken>& out) const {
    const int64_t characters =
        std::count_if(word.begin(), word.end(), [](char c) { return !is_continuation(c); });
    bool known = characters <= options_.max_characters;
    for (uint32_t begin = 0; begin < word.size() && known;) {
      const ModelToken token = longest_at(word, begin);
      known = token.end > begin;
      begin = token.end;
      out.push_back(token);
    }
    if (known) return;
    XRUN_CHECK(unk_id_.has_value(),
               "the tokenizer's unknown token \"{}\" is not in its vocabulary, "
               "but a text needs it",
               options_.unk_token);
    out = {{*unk_id_, 0, uint32_t(word.size())}};
  }

  // Returns the longest token that begins there; an empty one if there is none.
  ModelToken longest_at(std::string_view word, uint32_t begin) const {
    std::string spelling(begin > 0 ? options_.prefix : "");
    const size_t prefix = spelling.size();
    spelling.append(word.substr(begin));
    if (spelling.size() > longest_) spelling.resize(longest_);
    while (spelling.size() > prefix) {
      if (const auto id = vocabulary_.find(spelling)) {
        return {*id, begin, begin + uint32_t(spelling.size() - prefix)};
      }
      spelling.resize(std::max(utf8_before(spelling, spelling.size()), prefix));
    }
    return {-1, begin, begin};
  }

  Vocabulary vocabulary_;
  WordPieceOptions options_;
  std::optional<int32_t> unk_id_;
  uint64_t serial_;     // names this model in a thread's caches
  size_t longest_ = 0;  // bytes of the longest piece
};

std::unique_ptr<const TokenModel> read_word_piece(const ModelSource& source) {
  WordPieceOptions options;
  if (!source.option("unk_token").is_null()) options.unk_token = source.text("unk_token");
  if (!source.option("continuing_subword_prefix").is_null()) {
    options.prefix = source.text("continuing_subword_prefix");
  }
  const Json limit = source.option("max_input_chars_per_word");
  XRUN_CHECK(limit.is_null() || (limit.is_int() && limit.as_int() >= 0),
             "{}.max_input_chars_per_word: got {}, wanted a number of characters", source.where,
             dump_json(limit));
  if (!limit.is_null()) options.max_characters = limit.as_int();
  return std::make_unique<WordPiece>(
      read_vocabulary(source.member("vocab"), source.where + ".vocab"), std::move(options));
}

std::unique_ptr<const TokenModel> make(const ModelSource& source) {
  return read_model(source, &read_word_piece);
}

const bool kAdded = add_model_type("WordPiece", make);

}  // namespace

}  // namespace xrun
