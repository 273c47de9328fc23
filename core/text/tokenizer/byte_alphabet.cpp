// GPT-2's byte alphabet: a printable byte of Latin-1 is its own character, the other 68 bytes are
// U+0100 to U+0143 in their order. A space is U+0120, a line feed U+010A. Both directions are
// tables made at compile time.

#include "core/text/tokenizer/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "core/base/utf8.h"

namespace xrun {

namespace {

constexpr uint16_t kAlphabetEnd = 0x144;  // after the last character

constexpr std::array<uint16_t, 256> make_alphabet() {
  std::array<uint16_t, 256> alphabet{};
  uint16_t next = 0x100;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    alphabet[b] = printable ? uint16_t(b) : next++;
  }
  return alphabet;
}
constexpr std::array<uint16_t, 256> kAlphabet = make_alphabet();

constexpr std::array<int16_t, kAlphabetEnd> make_inverse() {
  std::array<int16_t, kAlphabetEnd> inverse{};
  for (int16_t& b : inverse) b = -1;
  for (int b = 0; b < 256; ++b) inverse[kAlphabet[b]] = int16_t(b);
  return inverse;
}
constexpr std::array<int16_t, kAlphabetEnd> kInverse = make_inverse();

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

void append_spelled(std::string& out, std::string_view bytes) {
  for (const char b : bytes) append_utf8(out, kAlphabet[static_cast<unsigned char>(b)]);
}

bool append_unspelled(std::string& out, std::string_view spelling) {
  const size_t size = out.size();
  for (size_t at = 0; at < spelling.size();) {
    const CodePoint point = read_utf8(spelling, at);
    if (!point.valid || point.value >= kAlphabetEnd || kInverse[point.value] < 0) {
      out.resize(size);
      return false;
    }
    out.push_back(static_cast<char>(kInverse[point.value]));
    at += point.size;
  }
  return true;
}

size_t insert_spelled(AlignedTextBuilder& out, const AlignedText& text, size_t begin, size_t end) {
  std::string spelling;
  size_t size = 0;
  for (size_t at = begin; at < end; ++at) {
    spelling.clear();
    append_spelled(spelling, text.text().substr(at, 1));
    out.insert(spelling, text.origin(at, at + 1));
    size += spelling.size();
  }
  return size;
}

int spelled_byte(std::string_view token) {
  // "<0x0A>", the byte tokens of SentencePiece.
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  const int high = hex_value(token[3]), low = hex_value(token[4]);
  // Rust's parser accepts a sign before a digit.
  if (token[3] == '+' && low >= 0) return low;
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

}  // namespace xrun
