#pragma once
// Methods that, while a prompt is in charge of a recipe, do not end it when they fail: the recipe
// pauses where it called them, and calls them again when it goes on.

#include <lua.hpp>

#include "lua/state/class.h"

namespace xrun {

// Wraps a method of a class. Called again, it is given the functions that now go by the names that
// those of the first call had: an objective that was mended at the prompt takes the place of the
// one that failed. Without a prompt in charge (Session::prompt_in_charge) nothing is different.
void make_retried(lua_State* L, const ClassInfo* info, const char* method);

// Makes an interruption (Ctrl-C) of the recipe's own code pause it where it is, while a prompt is
// in charge.
void pause_on_interruption(LuaState& state);

}  // namespace xrun
