// ByteLevel: spellings in the byte alphabet become bytes; what is not UTF-8 becomes U+FFFD. All
// tokens become one.

#include "core/base/utf8.h"
#include "core/text/tokenizer/byte_alphabet.h"
#include "core/text/tokenizer/token_decoder.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

// Returns where the last character begins if more bytes may complete it, or the size.
size_t complete_end(std::string_view bytes) {
  size_t at = bytes.size();
  for (int back = 0; back < 3 && at > 0; ++back) {
    --at;
    if (is_continuation(bytes[at])) continue;
    const bool open = static_cast<unsigned char>(bytes[at]) >= 0xC2 &&
                      utf8_size(bytes[at]) > bytes.size() - at;
    return open ? at : bytes.size();
  }
  return bytes.size();
}

class ByteLevelStage : public DecodeStage {
 public:
  ByteLevelStage(DecoderInput input, DecodeStage& next) : input_(input), next_(next) {}
  void push(std::string_view text) override {
    if (input_ == DecoderInput::kParts) {
      whole_ += text;
      return;
    }
    take(text);
    const size_t end = complete_end(bytes_);
    if (end == 0) return;
    next_.push(repair_utf8(std::string_view(bytes_).substr(0, end)));
    bytes_.erase(0, end);
  }
  void finish() override {
    if (input_ == DecoderInput::kParts) take(whole_);
    if (!bytes_.empty()) next_.push(repair_utf8(bytes_));
    next_.finish();
  }

 private:
  void take(std::string_view token) {
    if (!append_unspelled(bytes_, token)) bytes_ += token;  // not of the alphabet: as it is
  }
  DecoderInput input_;
  DecodeStage& next_;
  std::string bytes_;
  std::string whole_;
};

class ByteLevel : public TokenDecoder {
 public:
  std::unique_ptr<DecodeStage> start(DecoderInput input, DecodeStage& next) const override {
    return std::make_unique<ByteLevelStage>(input, next);
  }
  DecoderInput output(DecoderInput) const override { return DecoderInput::kParts; }
};

std::unique_ptr<const TokenDecoder> make(const ComponentSpec&) {
  return std::make_unique<ByteLevel>();
}

const bool kAdded = ComponentTable<TokenDecoder>::add("ByteLevel", make);

}  // namespace

}  // namespace xrun
