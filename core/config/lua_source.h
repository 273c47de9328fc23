#pragma once
// Analyses Lua source without running it: names, blocks, inputs of the prompt.

#include <string>
#include <string_view>
#include <vector>

#include "core/config/lua_lexer.h"

namespace xrun {

// Returns the names of a chunk, keywords included. With `dotted` a chain of fields is one name:
// "cfg.beta".
std::vector<LuaToken> lua_names(std::string_view text, bool dotted);

// LuaJIT's reserved words.
inline constexpr std::string_view kLuaKeywords[] = {
    "and",      "break",  "do",   "else", "elseif", "end",  "false", "for",
    "function", "goto",   "if",   "in",   "local",  "nil",  "not",   "or",
    "repeat",   "return", "then", "true", "until",  "while"};

// Returns true if a string can be written as a field: t.text. Only in ASCII: LuaJIT takes any other
// byte as a letter, even one that is not UTF-8.
bool is_lua_name(std::string_view text);

// Returns an input of the prompt as a chunk whose top-level locals outlive it: `local x, y` becomes
// `x, y = nil`, `local function f` becomes `function f`. Locals inside blocks, lines and columns
// stay the same.
std::string with_lasting_locals(std::string_view chunk);

// Returns the innermost bracket that is open where line `line` begins, or a token of kind kEnd if
// there is none or a block was opened after it. If Lua complains about a keyword in that line, the
// bracket's end is missing.
LuaToken open_bracket_before(std::string_view text, int line);

// Returns true if the lines after this one are inside a block, bracket or function that it opens.
bool opens_block(std::string_view line);

}  // namespace xrun
