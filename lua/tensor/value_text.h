#pragma once
// Any Lua value as text for people: tables sorted by key, cycles marked, depth and length limited.

#include <lua.hpp>
#include <string>

namespace xrun {

struct ValueTextOptions {
  int width = 80;          // columns; a table that fits is on one line
  int depth = 4;           // tables within tables; deeper ones show how many members they have
  int most_members = 40;   // of one table
  int most_values = 1000;  // in all
  bool calls = true;  // false: __tostring of tables is not called, and errors of others are ignored
};

// Returns the text of the value at index i, without a newline at the end. Tables show numbers
// before text keys; `{ 1, 2, x = 3 }`. Text is quoted as Lua would read it, whatever its bytes. A
// tensor shows its summary (tensor_text.h), within a table its header. A table's own __tostring is
// called, unless `calls` is false.
std::string value_text(lua_State* L, int i, const ValueTextOptions& options = {});

// "function dpo(p)  recipes/dpo.lua:24", or of a binding "function Policy:logprob(view) -> ...".
std::string function_text(lua_State* L, int i);

}  // namespace xrun
