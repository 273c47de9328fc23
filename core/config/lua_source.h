#pragma once
// Lua source, read without running it: tokens, names, inputs of the prompt, excerpts for messages.

#include <string>
#include <string_view>
#include <vector>

namespace xrun {

// ---- tokens

struct LuaToken {
  enum class Kind { kName, kNumber, kString, kSign, kEnd, kBad } kind = Kind::kEnd;
  std::string text;  // a string's bytes after escapes, a sign's characters; of kBad the complaint
  double number = 0;
  int line = 0;               // 1-based, of its first byte
  size_t begin = 0, end = 0;  // its bytes in the chunk
  bool unfinished = false;    // kBad: a string without its closing quote or bracket
};

// True if a token is this sign: "(".
inline bool is_sign(const LuaToken& token, std::string_view sign) {
  return token.kind == LuaToken::Kind::kSign && token.text == sign;
}

// Splits a chunk into tokens without its comments. The last token is kEnd. A token that no config
// may hold is kBad and reading continues after it: LuaJIT's 1LL and 2i, a number out of range, a
// string with a wrong escape or without an end.
std::vector<LuaToken> lex_lua(std::string_view text);

// Returns the names of a chunk, keywords included. `dotted` joins fields: "cfg.beta" is one.
std::vector<LuaToken> lua_names(std::string_view text, bool dotted);

// LuaJIT's reserved words.
inline constexpr std::string_view kLuaKeywords[] = {
    "and",      "break",  "do",   "else", "elseif", "end",  "false", "for",
    "function", "goto",   "if",   "in",   "local",  "nil",  "not",   "or",
    "repeat",   "return", "then", "true", "until",  "while"};

// True if a string can be written as a field: t.text.
bool is_lua_name(std::string_view text);

// Returns an input of the prompt as a chunk whose top-level locals outlive it: `local x, y` becomes
// `x, y = nil`, `local function f` becomes `function f`. Locals inside blocks, lines and columns
// stay the same.
std::string with_lasting_locals(std::string_view chunk);

// Returns the bracket that is open where line `line` begins and belongs to no block inside it: the
// one whose end is missing if Lua complains about a keyword there. Its kind is kEnd if there is
// none.
LuaToken open_bracket_before(std::string_view text, int line);

// True if the lines after this one are inside a block, bracket or function that it opens.
bool opens_block(std::string_view line);

// ---- excerpts

// Returns line `line` (1-based) of `text` without its line end, or "" if there is none.
std::string_view line_of(std::string_view text, int line);

// "\n    22 |   local y = x:matmul(w)\n       |             ^^^^^^" with marks under the bytes
// [begin, end) of the line, or "" for a blank line.
std::string excerpt_text(std::string_view source_line, int line, size_t begin, size_t end);

// The excerpt of one word of a line (its first occurrence), of the whole statement if it has none.
std::string excerpt_of_word(std::string_view text, int line, std::string_view word);

// The excerpt with a mark under the byte `at` of the text, which may be the end of its line.
std::string excerpt_of_byte(std::string_view text, size_t at);

}  // namespace xrun
