#pragma once
// The texts of a state's Lua files as they were loaded: a message shows the code that ran, even if
// its file has changed since.

#include <lua.hpp>
#include <map>
#include <string>

namespace xrun {

// A service of a LuaState.
struct SourceTexts {
  std::map<std::string, std::string> by_chunk;  // "@dpo.lua" -> its text
  std::string newest = "@";                     // the chunk remembered last
};

// Keeps the text of a chunk: "@dpo.lua", text.
void remember_source(lua_State* L, std::string chunk_name, std::string text);

// Returns the text of a chunk. A file that was not remembered is read once; "" if that fails.
const std::string& source_text(lua_State* L, const std::string& chunk_name);
// Returns one line of it, counted from 1; "" if there is no such line.
std::string source_line(lua_State* L, const std::string& chunk_name, int line);

}  // namespace xrun
