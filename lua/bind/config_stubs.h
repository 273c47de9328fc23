#pragma once
// The config's keys as classes for editors that speak to LuaLS.

#include <string>

namespace xrun {

// xrun.Config and a class for each table in it, as a recipe writes them: nearly all fields may be
// left out. xrun.Resolved and its like, what xrun.config returns: a subclass of each, whose tables
// and fields with a default are there.
std::string config_stubs();

}  // namespace xrun
