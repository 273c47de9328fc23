// libxrun_sentencepiece.so: the only code that uses the sentencepiece library. It returns errors as
// messages, never as exceptions.

#include <sentencepiece_processor.h>

#include "core/text/tokenizer/sentencepiece_library.h"

namespace {

class LibraryEncoder : public xrun::SentencePieceEncoder {
 public:
  // Returns an error message, or "".
  std::string load(const std::string& bytes) {
    const auto status = processor_.LoadFromSerializedProto(bytes);
    return status.ok() ? "" : status.ToString();
  }

  std::string encode(std::string_view text,
                     std::vector<xrun::SentencePieceToken>& out) const override {
    try {
      sentencepiece::ImmutableSentencePieceText tokens;
      const auto status = processor_.Encode({text.data(), text.size()}, tokens.mutable_proto());
      if (!status.ok()) return status.ToString();
      for (size_t i = 0; i < tokens.pieces_size(); ++i) {
        const auto token = tokens.pieces(static_cast<int>(i));
        out.push_back({static_cast<int32_t>(token.id()), token.begin(), token.end()});
      }
      return "";
    } catch (const std::exception& error) {
      return error.what();
    }
  }

 private:
  sentencepiece::SentencePieceProcessor processor_;
};

}  // namespace

// The entry that sentencepiece_library.cpp looks up by name.
extern "C" const xrun::SentencePieceEncoder* xrun_make_sentencepiece_encoder(
    const std::string& bytes, std::string& message) {
  try {
    auto encoder = std::make_unique<LibraryEncoder>();
    message = encoder->load(bytes);
    return message.empty() ? encoder.release() : nullptr;
  } catch (const std::exception& error) {
    message = error.what();
    return nullptr;
  }
}
