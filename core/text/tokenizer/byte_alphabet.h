#pragma once
// GPT-2's byte alphabet: a printable character for each byte, in which byte-level vocabularies are
// spelled (a space is U+0120, shown as a dotted G).

#include "core/text/tokenizer/aligned_text.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace xrun {

// Returns the code point of each byte: printable Latin-1 stands for itself, the other 68 bytes for
// U+0100 on, in order.
const std::array<uint16_t, 256>& byte_alphabet();

// Appends bytes as they are spelled in the alphabet, in UTF-8.
void append_spelled(std::string& out, std::string_view bytes);

// Appends the bytes that a spelling stands for. Returns false, and appends nothing, if a character
// is not of the alphabet.
bool append_unspelled(std::string& out, std::string_view spelling);

// Returns a text spelled in the alphabet; the characters of a byte stand for what it stands for.
AlignedText spelled_text(const AlignedText& text);

}  // namespace xrun
