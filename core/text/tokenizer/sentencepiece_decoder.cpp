// As the library decodes: the first text loses its leading U+2581 (all of them where the model
// removes extra spaces), every other one becomes a space. A run of byte tokens gives the characters
// it spells, U+FFFD for each byte that spells none.

#include "core/base/utf8.h"
#include "core/text/tokenizer/byte_token.h"
#include "core/text/tokenizer/sentencepiece_model.h"
#include "core/text/tokenizer/text_cleanup.h"

namespace xrun {

namespace {

constexpr std::string_view kMark = "\u2581";

// What of the model matters.
struct SpaceRules {
  bool strips_first;  // the first text loses a mark
  bool strips_all;    // and all further ones
};

class SentencePieceStage : public DecodeStage {
 public:
  SentencePieceStage(DecodeStage& next, SpaceRules rules, const std::vector<bool>& is_byte)
      : next_(next), rules_(rules), is_byte_(is_byte) {}

  void push(std::string_view token) override {
    const int byte = spelled_byte(token);
    if (byte >= 0 && is_byte_[size_t(byte)]) {
      run_.push_back(char(byte));
      hand_on_characters(false);
      return;
    }
    hand_on_characters(true);
    bool stripped = false;
    if (at_begin_ && rules_.strips_first && token.starts_with(kMark)) {
      token.remove_prefix(kMark.size());
      stripped = !rules_.strips_all;
    }
    if (stripped || !token.empty()) at_begin_ = false;
    if (!token.empty()) next_.push(replaced(token, kMark, " "));
  }
  void finish() override {
    hand_on_characters(true);
    next_.finish();
  }

 private:
  // Hands on the characters of the run that are complete; all of it if it has ended.
  void hand_on_characters(bool ended) {
    size_t at = 0;
    std::string text;
    while (at < run_.size()) {
      const CodePoint point = read_utf8(run_, at);
      // At most three bytes may wait for the rest of their character.
      if (!point.valid && !ended && run_.size() - at < 4 && may_go_on(at)) break;
      append_utf8(text, point.value);
      at += point.size;
    }
    run_.erase(0, at);
    if (text.empty()) return;
    at_begin_ = false;
    next_.push(text);
  }
  // Whether more bytes may make a character of the run from `at` on.
  bool may_go_on(size_t at) const {
    const auto lead = static_cast<unsigned char>(run_[at]);
    const size_t size = lead >= 0xF0 && lead <= 0xF4 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 1;
    if (lead > 0xF4 || run_.size() - at >= size) return false;
    for (size_t i = at + 1; i < run_.size(); ++i) {
      if (!is_continuation(run_[i])) return false;
    }
    return true;
  }

  DecodeStage& next_;
  SpaceRules rules_;
  const std::vector<bool>& is_byte_;
  bool at_begin_ = true;
  std::string run_;
};

class SentencePieceDecoder : public TokenDecoder {
 public:
  explicit SentencePieceDecoder(const SentencePieceFile& file)
      : rules_{file.add_dummy_prefix || file.remove_extra_whitespaces,
               file.remove_extra_whitespaces},
        is_byte_(256) {
    for (const SentencePiece& piece : file.pieces) {
      const int byte = piece.kind == PieceKind::kByte ? spelled_byte(piece.piece) : -1;
      if (byte >= 0) is_byte_[size_t(byte)] = true;
    }
  }
  std::unique_ptr<DecodeStage> start(DecoderInput, DecodeStage& next) const override {
    return std::make_unique<SentencePieceStage>(next, rules_, is_byte_);
  }

 private:
  SpaceRules rules_;
  std::vector<bool> is_byte_;  // which bytes have a token
};

}  // namespace

std::unique_ptr<const TokenDecoder> make_sentencepiece_decoder(const SentencePieceFile& file) {
  return std::make_unique<SentencePieceDecoder>(file);
}

}  // namespace xrun
