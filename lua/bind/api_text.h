#pragma once
// docs/lua-api.md and the LuaLS stubs, written from the doc entries of a state that has every
// module open, and from the config's fields.

#include <string>
#include <vector>

#include "lua/bind/doc.h"

namespace xrun {

// Markdown: the config's keys, then functions, values, and each class with its members.
std::string lua_api_markdown(std::vector<DocEntry> entries = doc_entries());

// A LuaLS definition file (---@meta) that knows every public name.
std::string lua_api_stubs(std::vector<DocEntry> entries = doc_entries());

// What `xrun explain KEY` says of a config key or a public name; "" if there is none.
std::string explain(const std::string& name);

}  // namespace xrun
