#pragma once
// Turns template source into tokens, with the whitespace control that transformers sets.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xrun::jinja {

enum class TokenKind : uint8_t {
  kData,           // text outside of tags
  kVariableBegin,  // {{
  kVariableEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,
  kString,  // text is the value, escapes resolved
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string text;
  int line;
};

// Drops one trailing newline, converts newlines to "\n", applies trim_blocks and lstrip_blocks, and
// resolves comments and raw blocks. Throws SyntaxFault with the line.
std::vector<Token> tokenize_template(std::string_view source);

}  // namespace xrun::jinja
