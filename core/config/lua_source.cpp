// Names and blocks are found by tokens alone, so that source with errors can be read too.

#include "core/config/lua_source.h"

#include <algorithm>

namespace xrun {
namespace {

// Returns the change in the depth of blocks at a keyword. `for` and `while` open a block by their
// `do`; `elseif` and `else` stay in the block of `if`.
int depth_change(const LuaToken& token) {
  if (token.kind != LuaTokenKind::kName) return 0;
  const std::string& word = token.text;
  if (word == "function" || word == "do" || word == "if" || word == "repeat") return 1;
  return word == "end" || word == "until" ? -1 : 0;
}

// Returns the index of the last name in a list of names that begins at tokens[at].
size_t last_name(const std::vector<LuaToken>& tokens, size_t at) {
  while (at + 2 < tokens.size() && is_sign(tokens[at + 1], ",") &&
         tokens[at + 2].kind == LuaTokenKind::kName) {
    at += 2;
  }
  return at;
}

}  // namespace

std::vector<LuaToken> lua_names(std::string_view text, bool dotted) {
  const std::vector<LuaToken> tokens = lex_lua(text);
  std::vector<LuaToken> names;
  for (size_t t = 0; t < tokens.size(); ++t) {
    if (tokens[t].kind != LuaTokenKind::kName) continue;
    names.push_back(tokens[t]);
    while (dotted && is_sign(tokens[t + 1], ".") && tokens[t + 2].kind == LuaTokenKind::kName) {
      t += 2;
      names.back().text += "." + tokens[t].text;
      names.back().end = tokens[t].end;
    }
  }
  return names;
}

bool is_lua_name(std::string_view text) {
  if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return c >= 0x80; }))
    return false;
  const std::vector<LuaToken> tokens = lex_lua(text);
  return tokens.front().kind == LuaTokenKind::kName && tokens.front().end == text.size() &&
         tokens.front().begin == 0 &&
         std::find(std::begin(kLuaKeywords), std::end(kLuaKeywords), text) ==
             std::end(kLuaKeywords);
}

// Each line at a prompt is its own chunk, in which Lua's locals would end.
std::string with_lasting_locals(std::string_view chunk) {
  const std::vector<LuaToken> tokens = lex_lua(chunk);
  std::string out;
  size_t copied = 0;
  int depth = 0;
  for (size_t t = 0; t + 1 < tokens.size(); ++t) {
    const LuaToken& token = tokens[t];
    depth += depth_change(token);
    // Only locals of the chunk itself become globals; inner ones stay local.
    if (depth != 0 || !is_name(token, "local") || tokens[t + 1].kind != LuaTokenKind::kName) {
      continue;
    }
    out += chunk.substr(copied, token.begin - copied);
    // Blanks in place of `local`, so that errors keep their columns.
    out.append(token.end - token.begin, ' ');
    copied = token.end;
    if (tokens[t + 1].text == "function") continue;
    const size_t last = last_name(tokens, t + 1);
    if (is_sign(tokens[last + 1], "=")) continue;
    out += chunk.substr(copied, tokens[last].end - copied);
    // Names alone are not a statement.
    out += " = nil";
    copied = tokens[last].end;
    t = last;
  }
  return out + std::string(chunk.substr(copied));
}

// Lua names the line where the parser gave up, often far below the open bracket.
LuaToken open_bracket_before(std::string_view text, int line) {
  std::vector<LuaToken> open;
  for (LuaToken& token : lex_lua(text)) {
    if (token.line >= line || token.kind == LuaTokenKind::kEnd) break;
    const bool opens = is_sign(token, "(") || is_sign(token, "{") || is_sign(token, "[");
    const bool closes = is_sign(token, ")") || is_sign(token, "}") || is_sign(token, "]");
    const int change = depth_change(token);
    if (opens || change > 0) {
      open.push_back(std::move(token));
    } else if ((closes || change < 0) && !open.empty()) {
      open.pop_back();
    }
  }
  const bool bracket = !open.empty() && open.back().kind == LuaTokenKind::kSign;
  return bracket ? open.back() : LuaToken{};
}

// A prompt reads another line if this is true.
bool opens_block(std::string_view line) {
  const std::vector<LuaToken> tokens = lex_lua(line);
  if (tokens.size() < 2) return false;
  const LuaToken& last = tokens[tokens.size() - 2];
  for (const std::string_view word : {"then", "do", "else", "repeat"}) {
    if (is_name(last, word)) return true;
  }
  if (is_sign(last, "{") || is_sign(last, "(")) return true;
  if (!is_sign(last, ")")) return false;
  // The parameters of a function whose body has not ended.
  for (size_t t = tokens.size() - 2; t-- > 0;) {
    if (is_name(tokens[t], "end")) return false;
    if (is_name(tokens[t], "function")) return true;
  }
  return false;
}

}  // namespace xrun
