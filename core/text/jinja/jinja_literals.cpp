// Escapes of string literals, as Python's unicode-escape reads them.

#include "core/base/utf8.h"
#include "core/text/jinja/jinja_ast.h"
#include "core/text/jinja/jinja_lexer.h"

namespace xrun::jinja {

namespace {

// Reads up to `most` digits of a base at text[at]; returns how many there were.
size_t read_digits(std::string_view text, size_t at, size_t most, int base, uint32_t& value) {
  size_t count = 0;
  value = 0;
  for (; count < most && at + count < text.size(); ++count) {
    const char c = text[at + count];
    const int digit = c >= '0' && c <= '9' ? c - '0'
                      : (c | 0x20) >= 'a'  ? (c | 0x20) - 'a' + 10
                                           : 99;
    if (digit >= base) break;
    value = value * static_cast<uint32_t>(base) + static_cast<uint32_t>(digit);
  }
  return count;
}

}  // namespace

std::string unescape_literal(std::string_view literal, int line) {
  std::string out;
  for (size_t at = 0; at < literal.size();) {
    if (literal[at] != '\\' || at + 1 >= literal.size()) {
      out += literal[at++];
      continue;
    }
    const char c = literal[at + 1];
    static constexpr std::string_view kFrom = "ntr\\'\"abfv\n";
    static constexpr std::string_view kTo("\n\t\r\\'\"\a\b\f\v", 10);
    uint32_t point = 0;
    if (const size_t simple = kFrom.find(c); simple != std::string_view::npos) {
      if (simple < kTo.size()) out += kTo[simple];  // a backslash before a newline joins lines
      at += 2;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t wanted = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      if (read_digits(literal, at + 2, wanted, 16, point) != wanted || point > 0x10FFFF) {
        throw SyntaxFault(fmt::format("the string has a malformed \\{} escape", c), line);
      }
      append_utf8(out, point);
      at += 2 + wanted;
    } else if (const size_t octal = read_digits(literal, at + 1, 3, 8, point); octal > 0) {
      append_utf8(out, point);
      at += 1 + octal;
    } else {
      out += literal[at++];
    }
  }
  return out;
}

}  // namespace xrun::jinja
