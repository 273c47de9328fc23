// Blocks open with function, do, if and repeat, and close with end and until.

#include "core/config/prompt_chunk.h"

#include <vector>

#include "core/config/lua_lexer.h"

namespace xrun {

namespace {

using Kind = LuaToken::Kind;

bool is(const LuaToken& token, Kind kind, std::string_view text) {
  return token.kind == kind && token.text == text;
}

// The change that a keyword makes to the depth of blocks.
int depth_change(const LuaToken& token) {
  if (token.kind != Kind::kName) return 0;
  const std::string& word = token.text;
  if (word == "function" || word == "do" || word == "if" || word == "repeat") return 1;
  return word == "end" || word == "until" ? -1 : 0;
}

// The last token of the names behind `local`, from tokens[at] on.
size_t last_name(const std::vector<LuaToken>& tokens, size_t at) {
  while (at + 2 < tokens.size() && is(tokens[at + 1], Kind::kSign, ",") &&
         tokens[at + 2].kind == Kind::kName) {
    at += 2;
  }
  return at;
}

}  // namespace

std::string with_lasting_locals(std::string_view chunk) {
  const std::vector<LuaToken> tokens = lex_lua(chunk);
  std::string out;
  size_t copied = 0;
  int depth = 0;
  for (size_t t = 0; t + 1 < tokens.size(); ++t) {
    const LuaToken& token = tokens[t];
    depth += depth_change(token);
    if (depth != 0 || !is(token, Kind::kName, "local") || tokens[t + 1].kind != Kind::kName) {
      continue;
    }
    out += chunk.substr(copied, token.begin - copied);
    out.append(token.end - token.begin, ' ');
    copied = token.end;
    if (tokens[t + 1].text == "function") continue;
    const size_t last = last_name(tokens, t + 1);
    if (is(tokens[last + 1], Kind::kSign, "=")) continue;
    out += chunk.substr(copied, tokens[last].end - copied);
    out += " = nil";
    copied = tokens[last].end;
    t = last;
  }
  return out + std::string(chunk.substr(copied));
}

}  // namespace xrun
