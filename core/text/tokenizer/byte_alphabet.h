#pragma once
// Two spellings of bytes in vocabularies: GPT-2's byte alphabet, a printable character for each
// byte (a space is U+0120), and the byte tokens <0x00> to <0xFF>.

#include <string>
#include <string_view>

#include "core/text/tokenizer/aligned_text.h"

namespace xrun {

// Appends the spelling of bytes in the alphabet, in UTF-8.
void append_spelled(std::string& out, std::string_view bytes);

// Appends the bytes of a spelling. Returns false, and appends nothing, if a character is not in the
// alphabet.
bool append_unspelled(std::string& out, std::string_view spelling);

// Inserts the spelling of bytes [begin, end) of a text, each character aligned with its byte.
// Returns the number of bytes inserted.
size_t insert_spelled(AlignedTextBuilder& out, const AlignedText& text, size_t begin, size_t end);

// Returns the byte that a byte token spells, or -1. Like Hugging Face, reads a sign before one
// digit as a digit 0: <0x+5>.
int spelled_byte(std::string_view token);

}  // namespace xrun
