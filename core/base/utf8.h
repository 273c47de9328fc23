#pragma once
// UTF-8: stepping, checking, repairing.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace xrun {

// True for a continuation byte.
inline bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

struct CodePoint {
  uint32_t value;  // U+FFFD for an invalid byte
  uint32_t size;   // bytes taken: 1 to 4; 1 for an invalid byte
  bool valid;
};

// Reads the code point at text[at]. Requires at < text.size(). Overlong forms, surrogates and
// values beyond U+10FFFF are invalid.
CodePoint read_utf8(std::string_view text, size_t at);

// Returns the number of bytes at the end of `text` that begin a character without ending it.
size_t open_utf8_bytes(std::string_view text);

// Appends a code point; an invalid value is written as U+FFFD.
void append_utf8(std::string& out, uint32_t code_point);

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Returns true if a file with this start is UTF-16: by its byte order mark, or zeros in every other
// byte.
bool is_utf16(std::string_view beginning);
constexpr const char* kUtf16Hint = "UTF-16, wanted UTF-8; convert it with iconv -f UTF-16 -t UTF-8";

bool is_valid_utf8(std::string_view text);

// Returns a string of at most `bytes` bytes unchanged; a longer one is cut between two characters
// and gets "..." appended.
std::string shortened(std::string_view text, size_t bytes);

// Returns text with each maximal invalid piece replaced by U+FFFD, as Python's errors="replace"
// does, and adds the number of replacements to `repaired` if given.
std::string repair_utf8(std::string_view text, int64_t* repaired = nullptr);

}  // namespace xrun
