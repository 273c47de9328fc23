// WordLevel looks up whole words, WordPiece the longest pieces of words.

#include <algorithm>

#include "core/base/error.h"
#include "core/text/tokenizer/piece_cache.h"
#include "core/text/tokenizer/token_model.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

// Each piece is one token or the unknown token.
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
      if (!id) throw_no_unknown_token(unk_token_);
      out.push_back({*id, piece.begin, piece.end});
    }
  }
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  Vocabulary vocabulary_;
  std::string unk_token_;
  std::optional<int32_t> unk_id_;
};

struct WordPieceOptions {
  std::string unk_token = "[UNK]";
  std::string prefix = "##";
  int64_t max_characters = 100;  // of a word; the default of tokenizers
};

// Cuts a word greedily: takes the longest piece that begins it, then the longest that continues it,
// spelled with a prefix. A word without such pieces, or beyond max_characters, is unknown as a
// whole.
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
    // A word beyond the limit is unknown, as in BERT.
    bool known = characters <= options_.max_characters;
    for (uint32_t begin = 0; begin < word.size() && known;) {
      const ModelToken token = longest_at(word, begin);
      known = token.end > begin;
      begin = token.end;
      out.push_back(token);
    }
    if (known) return;
    if (!unk_id_) throw_no_unknown_token(options_.unk_token);
    // The pieces found so far are dropped: a word is known as a whole or not at all.
    out = {{*unk_id_, 0, uint32_t(word.size())}};
  }

  // Returns the longest token that begins at `begin`, or an empty one.
  ModelToken longest_at(std::string_view word, uint32_t begin) const {
    std::string spelling(begin > 0 ? options_.prefix : "");
    const size_t prefix = spelling.size();
    spelling.append(word.substr(begin));
    // No piece is longer, so a word costs at most its length times longest_ look-ups.
    if (spelling.size() > longest_) spelling.resize(longest_);
    while (spelling.size() > prefix) {
      if (const auto id = vocabulary_.find(spelling)) {
        return {*id, begin, begin + uint32_t(spelling.size() - prefix)};
      }
      // Drop a character, but none of the prefix.
      spelling.resize(std::max(utf8_before(spelling, spelling.size()), prefix));
    }
    return {-1, begin, begin};
  }

  Vocabulary vocabulary_;
  WordPieceOptions options_;
  std::optional<int32_t> unk_id_;
  uint64_t serial_;     // identifies this model in the threads' caches
  size_t longest_ = 0;  // bytes of the longest piece
};

}  // namespace

std::unique_ptr<const TokenModel> read_word_level(const ModelSource& source) {
  const bool named = !source.option("unk_token").is_null();
  return std::make_unique<WordLevel>(
      read_vocabulary(source.member("vocab"), source.where + ".vocab"),
      named ? source.text("unk_token") : "<unk>");
}

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

}  // namespace xrun
