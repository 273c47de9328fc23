// Each stage adds what it does to a text, in the order in which encode() runs them. For a single
// token, the kind of vocabulary is derived from the decoding of two known pieces.

#include "core/text/tokenizer/token_bytes.h"

#include <array>

#include "core/text/tokenizer/byte_alphabet.h"
#include "core/text/tokenizer/tokenizer_pipeline.h"

namespace xrun {

namespace {

bool decodes_to(const Tokenizer& tokenizer, std::string_view piece, std::string_view text) {
  const std::optional<int32_t> id = tokenizer.id_of(piece);
  return id && tokenizer.decode(std::array{*id}) == text;
}

}  // namespace

TextSpelling text_spelling(const Tokenizer& tokenizer) {
  const TokenizerPipeline& stages = tokenizer.state().stages;
  TextSpelling spelling;
  if (stages.normalizer) stages.normalizer->describe(spelling);
  if (stages.pre_tokenizer) stages.pre_tokenizer->describe(spelling);
  stages.model->describe(spelling);
  return spelling;
}

TokenBytes::TokenBytes(const Tokenizer& tokenizer)
    : tokenizer_(tokenizer),
      // U+0120 spells a space, U+010A a line feed.
      byte_level_(decodes_to(tokenizer, "\u0120", " ") || decodes_to(tokenizer, "\u010A", "\n")),
      byte_tokens_(decodes_to(tokenizer, "<0x0A>", "\n") || decodes_to(tokenizer, "<0x41>", "A")) {}

std::string TokenBytes::of(int32_t id) const {
  const std::string_view piece = id < 0 ? std::string_view() : tokenizer_.piece(id);
  if (piece.empty() || tokenizer_.is_special(id)) return std::string(piece);
  std::string bytes;
  if (byte_level_) {
    if (!append_unspelled(bytes, piece)) bytes = piece;  // an added token is plain text
    return bytes;
  }
  const int byte = byte_tokens_ ? spelled_byte(piece) : -1;
  if (byte >= 0) return std::string(1, static_cast<char>(byte));
  // Decoders remove the leading space of the first token only, so the second of a pair has its own.
  const std::string once = tokenizer_.decode(std::array{id});
  const std::string twice = tokenizer_.decode(std::array{id, id});
  const bool longer = twice.size() > once.size() && twice.starts_with(once);
  return longer ? twice.substr(once.size()) : once;
}

}  // namespace xrun
