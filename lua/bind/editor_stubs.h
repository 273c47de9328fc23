#pragma once
// Definitions for editors that speak to LuaLS: every public name with its types and words.

#include <string>
#include <vector>

#include "lua/state/doc.h"

namespace xrun {

// A definition file (---@meta xrun): the config's keys as a class, the classes, the functions of
// `xrun`, and the public operators of ATen with their schemas.
std::string editor_stubs(std::vector<DocEntry> entries = doc_entries());

// xrun.Config and a class for each table in it, as a recipe writes them: nearly all fields may be
// left out. xrun.Resolved and its like, what xrun.config returns: a subclass of each, whose tables
// and fields with a default are there.
std::string config_stubs();

}  // namespace xrun
