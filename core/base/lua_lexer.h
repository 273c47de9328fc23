#pragma once
// Lua's tokens, with their lines: enough to find a config and what reads it.

#include <string>
#include <string_view>
#include <vector>

namespace xrun {

struct LuaToken {
  enum class Kind { kName, kNumber, kString, kSign, kEnd, kBad } kind = Kind::kEnd;
  std::string text;  // a string's bytes after escapes, a sign's characters
  double number = 0;
  int line = 0;
};

// Splits a chunk; comments vanish. The last token is kEnd; an unfinished string or an unknown byte
// is a kBad token where it begins (Lua itself will report it), and nothing follows it but kEnd.
std::vector<LuaToken> lex_lua(std::string_view text);

}  // namespace xrun
