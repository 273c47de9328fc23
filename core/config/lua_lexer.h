#pragma once
// Tokens of Lua source.

#include <string>
#include <string_view>
#include <vector>

namespace xrun {

enum class LuaTokenKind { kName, kNumber, kString, kSign, kEnd, kBad };

struct LuaToken {
  LuaTokenKind kind = LuaTokenKind::kEnd;
  std::string text;  // a string's bytes after escapes, a sign's characters; of kBad what is wrong
  double number = 0;
  int line = 0;               // 1-based, of its first byte
  size_t begin = 0, end = 0;  // its bytes in the chunk
  bool unfinished = false;    // kBad: a string without its closing quote or bracket
};

// Returns true if a token is this sign: "(".
inline bool is_sign(const LuaToken& token, std::string_view sign) {
  return token.kind == LuaTokenKind::kSign && token.text == sign;
}

// Returns true if a token is this name or keyword.
inline bool is_name(const LuaToken& token, std::string_view name) {
  return token.kind == LuaTokenKind::kName && token.text == name;
}

// Splits a chunk into tokens without its comments. The last token is kEnd. A token that a config
// must not have is kBad, and lexing continues after it: LuaJIT's 1LL and 2i, a number out of range,
// a string with a wrong escape or without an end.
std::vector<LuaToken> lex_lua(std::string_view text);

}  // namespace xrun
