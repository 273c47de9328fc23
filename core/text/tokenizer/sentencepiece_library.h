#pragma once
// The sentencepiece library, kept apart from the rest of the process.
//
// It exports a global FLAGS_minloglevel of its own type; libc10 exports one of another. In one
// scope the first to load overwrites what lies behind the other's (of c10 the switch that makes
// errors fatal). So the library is linked by a plug-in alone, libxrun_sentencepiece.so, which is
// loaded into a scope of its own by the first tokenizer.model.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

// A token with its bytes of the text.
struct SentencePieceToken {
  int32_t id;
  uint32_t begin, end;
};

// One loaded model. Thread-safe.
class SentencePieceEncoder {
 public:
  virtual ~SentencePieceEncoder() = default;
  // Appends the tokens of a text. Returns what went wrong, "" for nothing.
  virtual std::string encode(std::string_view text, std::vector<SentencePieceToken>& out) const = 0;
};

// Makes the encoder of a model's bytes. Throws Error that begins with `where` if the library does
// not take them, or if the plug-in is missing.
std::unique_ptr<const SentencePieceEncoder> make_sentencepiece_encoder(const std::string& bytes,
                                                                       const std::string& where);

// The plug-in's entry: nullptr, and why, if the library does not take the model.
using MakeSentencePieceEncoder = const SentencePieceEncoder* (*)(const std::string& bytes,
                                                                 std::string& message);
constexpr const char* kSentencePieceEntry = "xrun_make_sentencepiece_encoder";

}  // namespace xrun
