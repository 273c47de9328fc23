#pragma once
// Lua's keywords, and the spelling of its names.

#include <algorithm>
#include <cctype>
#include <string_view>

namespace xrun {

// LuaJIT's reserved words.
inline constexpr std::string_view kLuaKeywords[] = {
    "and",      "break",  "do",   "else", "elseif", "end",  "false", "for",
    "function", "goto",   "if",   "in",   "local",  "nil",  "not",   "or",
    "repeat",   "return", "then", "true", "until",  "while"};

inline bool is_lua_keyword(std::string_view word) {
  return std::find(std::begin(kLuaKeywords), std::end(kLuaKeywords), word) !=
         std::end(kLuaKeywords);
}

// True if a name may contain this byte; a digit may not begin one.
inline bool in_lua_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
inline bool begins_lua_name(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_';
}

// True if a text can be written as a field: t.text.
inline bool is_lua_name(std::string_view text) {
  return !text.empty() && begins_lua_name(text[0]) && !is_lua_keyword(text) &&
         std::all_of(text.begin(), text.end(), in_lua_name);
}

}  // namespace xrun
