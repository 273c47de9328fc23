#pragma once
// Lua's tokens, with their lines: enough to find a config and what reads it.

#include <string>
#include <string_view>
#include <vector>

namespace xrun {

struct LuaToken {
  enum class Kind { kName, kNumber, kString, kSign, kEnd, kBad } kind = Kind::kEnd;
  std::string text;  // a string's bytes after escapes, a sign's characters; what is wrong, of kBad
  double number = 0;
  int line = 0;
  size_t begin = 0, end = 0;  // its bytes in the chunk
};

// True if a token is this sign: "(".
inline bool is_sign(const LuaToken& token, std::string_view sign) {
  return token.kind == LuaToken::Kind::kSign && token.text == sign;
}

// Splits a chunk; comments vanish. The last token is kEnd. What is no token of a config is kBad and
// reading goes on behind it: LuaJIT's 1LL and 2i, a number out of range, a text with a wrong escape
// or without an end.
std::vector<LuaToken> lex_lua(std::string_view text);

}  // namespace xrun
