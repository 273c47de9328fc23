#pragma once
// The spelling of tokens that stand for a byte: <0x00> to <0xFF>.

#include <string_view>

namespace xrun {

// Returns the byte that a token spells, or -1. As Hugging Face does, a sign before one digit is
// taken for a digit 0: <0x+5>.
int spelled_byte(std::string_view token);

}  // namespace xrun
