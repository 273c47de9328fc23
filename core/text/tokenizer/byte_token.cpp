#include "core/text/tokenizer/byte_token.h"

namespace xrun {

namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

int spelled_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  const int high = hex_value(token[3]), low = hex_value(token[4]);
  // Rust's parser takes a sign before a digit.
  if (token[3] == '+' && low >= 0) return low;
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

}  // namespace xrun
