#pragma once
// The verbs over objectives on the current batch: compare and gradcheck.

#include <lua.hpp>
#include <string>

#include "core/train/objective.h"

namespace xrun {

class PausedRun;

// Returns the objective at index i, or the recipe's own; `name` gets its name in tables.
Objective objective_at(lua_State* L, PausedRun& paused, int i, const char* which,
                       std::string* name);

// compare(f, g?): losses, metrics and gradients of two objectives (compare_verb.cpp).
int compare_verb(lua_State* L);
// gradcheck(f?): the gradient by log-probs against finite differences (gradcheck_verb.cpp).
int gradcheck_verb(lua_State* L);

}  // namespace xrun
