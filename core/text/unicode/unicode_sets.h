#pragma once
// Sets of characters that single components of tokenizer.json ask for, each as that component of
// Hugging Face's tokenizers has it: they come from tables of different Unicode versions.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace xrun {

// What StripAccents removes, and what BertNormalizer removes as an accent or as a control.
bool is_accent(uint32_t code_point);
bool is_bert_accent(uint32_t code_point);
bool is_bert_control(uint32_t code_point);

// What Punctuation and BertPreTokenizer cut off.
bool is_punctuation(uint32_t code_point);

// The ideographs that BertNormalizer puts spaces around.
bool is_bert_ideograph(uint32_t code_point);

// Appends the lower case of a character as Lowercase makes it: one character, two for U+0130.
void append_lowercase(std::string& out, uint32_t code_point);

// The script of a character as a number of our own; Hiragana and Katakana count as Han.
constexpr uint8_t kAnyScript = 0;  // a space and what belongs to every script
uint8_t script_of(uint32_t code_point);

// Returns where the extended grapheme cluster that begins at text[at] ends (UAX #29; GB9c, which
// joins clusters of nine bytes and more, is left out: nobody asks for clusters above five).
size_t grapheme_end(std::string_view text, size_t at);

}  // namespace xrun
