// read_utf8 accepts exactly the well-formed sequences of the Unicode Standard, table 3-7: the lead
// byte fixes the length and the range of the second byte.

#include "core/base/utf8.h"

#include <simdjson.h>

namespace xrun {

namespace {

constexpr uint32_t kReplacement = 0xFFFD;

struct LeadByte {
  uint32_t size;      // 0: not a lead byte
  unsigned char low;  // range of the second byte
  unsigned char high;
};

// E0 and F0 exclude overlong forms, ED surrogates, F4 values beyond U+10FFFF.
LeadByte lead_byte(unsigned char c) {
  if (c < 0x80) return {1, 0, 0};
  // 80..BF continue a sequence; C0 and C1 would begin overlong ones.
  if (c < 0xC2) return {0, 0, 0};
  if (c < 0xE0) return {2, 0x80, 0xBF};
  if (c == 0xE0) return {3, 0xA0, 0xBF};
  if (c == 0xED) return {3, 0x80, 0x9F};
  if (c < 0xF0) return {3, 0x80, 0xBF};
  if (c == 0xF0) return {4, 0x90, 0xBF};
  if (c < 0xF4) return {4, 0x80, 0xBF};
  if (c == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// Returns how many bytes at text[at] form a valid prefix of a sequence, at least 1.
// A sequence cut off after n good bytes is one error, not n.
size_t valid_prefix(std::string_view text, size_t at, const LeadByte& lead) {
  // The second byte has the range of its lead byte; later ones are 80..BF.
  size_t n = 1;
  while (n < lead.size && at + n < text.size()) {
    const unsigned char c = static_cast<unsigned char>(text[at + n]);
    const unsigned char low = n == 1 ? lead.low : 0x80;
    const unsigned char high = n == 1 ? lead.high : 0xBF;
    if (c < low || c > high) break;
    ++n;
  }
  return n;
}

}  // namespace

CodePoint read_utf8(std::string_view text, size_t at) {
  const unsigned char c = static_cast<unsigned char>(text[at]);
  const LeadByte lead = lead_byte(c);
  if (lead.size == 1) return {c, 1, true};
  // Only one byte is consumed: the next one may begin a valid sequence.
  if (lead.size == 0 || valid_prefix(text, at, lead) < lead.size) return {kReplacement, 1, false};
  // A lead byte has 7 - size bits of the value.
  uint32_t value = c & (0xFFu >> (lead.size + 1));
  for (uint32_t i = 1; i < lead.size; ++i) {
    value = (value << 6) | (static_cast<unsigned char>(text[at + i]) & 0x3Fu);
  }
  return {value, lead.size, true};
}

// For text that arrives in pieces: the caller holds these bytes back until their character is
// whole.
size_t open_utf8_bytes(std::string_view text) {
  // An open sequence has at most 3 of its 4 bytes.
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const char byte = text[text.size() - back];
    if (is_continuation(byte)) continue;
    // The lead byte of the last sequence decides: bytes missing, or complete (or invalid).
    return lead_byte(static_cast<unsigned char>(byte)).size > back ? back : 0;
  }
  return 0;
}

// Values that are not characters become U+FFFD, so that the output is always UTF-8.
void append_utf8(std::string& out, uint32_t code_point) {
  if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point < 0xE000)) {
    code_point = kReplacement;
  }
  if (code_point < 0x80) {
    out.push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out.push_back(static_cast<char>(0xC0 | (code_point >> 6)));
    out.push_back(static_cast<char>(0x80 | (code_point & 0x3F)));
  } else if (code_point < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | (code_point >> 12)));
    out.push_back(static_cast<char>(0x80 | ((code_point >> 6) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code_point & 0x3F)));
  } else {
    out.push_back(static_cast<char>(0xF0 | (code_point >> 18)));
    out.push_back(static_cast<char>(0x80 | ((code_point >> 12) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | ((code_point >> 6) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code_point & 0x3F)));
  }
}

// A guess from the first bytes, for a better message than "invalid byte".
bool is_utf16(std::string_view beginning) {
  if (beginning.starts_with("\xFF\xFE") || beginning.starts_with("\xFE\xFF")) return true;
  if (beginning.size() < 4) return false;
  const auto zeros = [&](size_t at) { return beginning[at] == '\0' && beginning[at + 2] == '\0'; };
  // Little endian has them at odd bytes, big endian at even ones; a binary file often has both.
  return zeros(0) != zeros(1);
}

bool is_valid_utf8(std::string_view text) {
  return simdjson::validate_utf8(text.data(), text.size());
}

std::string shortened(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  // text[bytes] is the first byte left out; a continuation there would split a character.
  while (bytes > 0 && is_continuation(text[bytes])) --bytes;
  return std::string(text.substr(0, bytes)) + "...";
}

std::string repair_utf8(std::string_view text, int64_t* repaired) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = read_utf8(text, at);
    if (point.valid) {
      out.append(text, at, point.size);
      at += point.size;
      continue;
    }
    const LeadByte lead = lead_byte(static_cast<unsigned char>(text[at]));
    // A maximal subpart (Unicode Standard 3.9, table 3-8) becomes one U+FFFD.
    at += lead.size == 0 ? 1 : valid_prefix(text, at, lead);
    append_utf8(out, kReplacement);
    if (repaired != nullptr) ++*repaired;
  }
  return out;
}

}  // namespace xrun
