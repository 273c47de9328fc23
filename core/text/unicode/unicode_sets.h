#pragma once
// Sets of characters that single components of tokenizer.json use, each from the table of that
// component in Hugging Face's tokenizers; the tables are of different Unicode versions.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace xrun {

// Removed by StripAccents; removed by BertNormalizer as accents and as controls.
bool is_accent(uint32_t code_point);
bool is_bert_accent(uint32_t code_point);
bool is_bert_control(uint32_t code_point);

// Cut off by Punctuation and BertPreTokenizer.
bool is_punctuation(uint32_t code_point);

// Ideographs that BertNormalizer puts spaces around.
bool is_bert_ideograph(uint32_t code_point);

// Appends the lower case of a character as in Lowercase: one character, but two for U+0130.
void append_lowercase(std::string& out, uint32_t code_point);

// Returns the end of the extended grapheme cluster that begins at text[at] (UAX #29, without GB9c,
// which joins clusters of nine bytes and more: callers use clusters of at most five).
size_t grapheme_end(std::string_view text, size_t at);

}  // namespace xrun
