#pragma once
// The sentencepiece library, isolated from the rest of the process.
//
// The library and libc10 both export a global FLAGS_minloglevel, of different types. In one scope
// the first to load overwrites memory next to the other's (in c10 the switch that makes errors
// fatal). So only a plug-in links the library, libxrun_sentencepiece.so, and the first
// tokenizer.model loads it into a separate scope.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

// A token and its bytes of the text.
struct SentencePieceToken {
  int32_t id;
  uint32_t begin, end;
};

// One loaded model. Thread-safe.
class SentencePieceEncoder {
 public:
  virtual ~SentencePieceEncoder() = default;
  // Appends the tokens of a text. Returns an error message, or "".
  virtual std::string encode(std::string_view text, std::vector<SentencePieceToken>& out) const = 0;
};

// Makes the encoder of a model's bytes. Throws Error starting with `where` if the library rejects
// them, or if the plug-in is missing.
std::unique_ptr<const SentencePieceEncoder> make_sentencepiece_encoder(const std::string& bytes,
                                                                       const std::string& where);

// The plug-in's entry point. Returns nullptr and sets the message if the library rejects the model.
using MakeSentencePieceEncoder = const SentencePieceEncoder* (*)(const std::string& bytes,
                                                                 std::string& message);
constexpr const char* kSentencePieceEntry = "xrun_make_sentencepiece_encoder";

}  // namespace xrun
