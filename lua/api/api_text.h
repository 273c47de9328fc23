#pragma once
// docs/lua-api.md, `xrun explain` and the editors' stubs, from doc entries and config fields.

#include <string>
#include <vector>

#include "lua/state/doc.h"

namespace xrun {

// Markdown: the config's keys, then functions, values, and each class with its members.
std::string lua_api_markdown(std::vector<DocEntry> entries = doc_entries());

// The text of `xrun explain KEY` for a config key, a public name or an operator; "" if unknown.
std::string explain(const std::string& name);

// A definition file for editors that speak LuaLS (---@meta xrun): the config's keys as a class, the
// classes, the functions of `xrun`, and the public operators of ATen with their schemas.
std::string editor_stubs(std::vector<DocEntry> entries = doc_entries());

}  // namespace xrun
