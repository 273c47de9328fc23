#pragma once
// Makes docs/lua-api.md, the answers of `xrun explain` and the editors' stubs from doc entries and
// config fields.

#include <string>
#include <vector>

#include "lua/state/doc.h"

namespace xrun {

// Returns docs/lua-api.md: the config's keys, then functions, values, and each class with its
// members.
std::string lua_api_markdown(std::vector<DocEntry> entries = doc_entries());

// Returns the text of `xrun explain NAME` for a config key, a public name or an operator; "" if it
// is none of these.
std::string explain(const std::string& name);

// Returns a definition file for editors that use LuaLS (---@meta xrun): the config's keys as a
// class, the classes, the functions of `xrun`, and the public operators of ATen with their schemas.
std::string editor_stubs(std::vector<DocEntry> entries = doc_entries());

}  // namespace xrun
