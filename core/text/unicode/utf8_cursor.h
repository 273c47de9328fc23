#pragma once
// Steps through text that is known to be valid UTF-8, without checks.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/base/utf8.h"

namespace xrun {

// Returns the size of the character that begins with `lead`, in bytes.
inline uint32_t utf8_size(char lead) {
  const auto c = static_cast<unsigned char>(lead);
  return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

// Returns the character that begins at text[at].
inline uint32_t utf8_character(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return uint32_t(static_cast<unsigned char>(text[at + i])); };
  const uint32_t c = byte(0);
  if (c < 0x80) return c;
  if (c < 0xE0) return (c & 0x1F) << 6 | (byte(1) & 0x3F);
  if (c < 0xF0) return (c & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  return (c & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
}

// Returns the end of the run of ASCII characters at `at`.
inline size_t ascii_end(std::string_view text, size_t at) {
  for (uint64_t bytes; at + sizeof bytes <= text.size(); at += sizeof bytes) {
    std::memcpy(&bytes, text.data() + at, sizeof bytes);
    if (bytes & 0x8080808080808080) break;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

// Returns the start of the character before `at`. Requires at > 0.
inline size_t utf8_before(std::string_view text, size_t at) {
  do --at;
  while (at > 0 && is_continuation(text[at]));
  return at;
}

}  // namespace xrun
