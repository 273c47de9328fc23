#pragma once
// The record of the rollouts of a run's open body, and the reward from which its answers pass.

#include <lua.hpp>

#include "core/rollout/rollout_log.h"

namespace xrun {

class Run;

// Returns the record of the open body, made at the first call; null outside a body.
BodyRollouts* body_rollouts(lua_State* L);

// Decides the reward above which answers pass, unless the recipe has set it: once per run, in the
// first body with rewards, so that pass@k is either reported in all bodies or in none. run.json
// keeps it:
//   {"pass": {"step", "limit"}}, limit null: answers do not pass or fail
void settle_pass(Run& run, BodyRollouts& body);

}  // namespace xrun
