#pragma once
// The record of a body's rollouts, and the reward above which answers pass.

#include <lua.hpp>

#include "core/rollout/rollout_log.h"

namespace xrun {

class Run;

// Returns the record of the open body, made at the first call; null outside a body.
BodyRollouts* body_rollouts(lua_State* L);

// Decides the reward above which answers pass, unless the recipe has set it. The first body with
// rewards decides for the whole run, so that pass@k is reported in all bodies or in none. run.json
// keeps
//   {"pass": {"step", "limit"}}, limit null: answers do not pass or fail
void settle_pass(Run& run, BodyRollouts& body);

}  // namespace xrun
