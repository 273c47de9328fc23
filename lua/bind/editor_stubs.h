#pragma once
// Definitions for editors that speak to LuaLS: every public name with its types and words.

#include <string>
#include <vector>

#include "lua/state/doc.h"

namespace xrun {

// A definition file (---@meta xrun): the config's keys as a class, the classes, the functions of
// `xrun`, and the public operators of ATen with their schemas.
std::string editor_stubs(std::vector<DocEntry> entries = doc_entries());

}  // namespace xrun
