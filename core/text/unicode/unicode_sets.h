#pragma once
// Sets of characters that single components of tokenizer.json use. Each is the table of that
// component in Hugging Face's tokenizers; the tables have different Unicode versions.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace xrun {

// Characters that StripAccents removes, and that BertNormalizer removes as accents and as controls.
bool is_accent(uint32_t code_point);
bool is_bert_accent(uint32_t code_point);
bool is_bert_control(uint32_t code_point);

// Characters that Punctuation and BertPreTokenizer split off.
bool is_punctuation(uint32_t code_point);

// Ideographs that BertNormalizer puts spaces around.
bool is_bert_ideograph(uint32_t code_point);

// Appends the lower case of a character as in Lowercase: one character, but two for U+0130.
void append_lowercase(std::string& out, uint32_t code_point);

// Returns the end of the extended grapheme cluster that begins at text[at]. Requires valid UTF-8
// and at < text.size(). Follows UAX #29 without GB9c, which joins clusters of at least nine bytes:
// callers use clusters of at most five.
size_t grapheme_end(std::string_view text, size_t at);

}  // namespace xrun
