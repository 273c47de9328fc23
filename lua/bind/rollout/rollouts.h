#pragma once
// Lua bindings of sampled batches.

#include <cstdint>
#include <lua.hpp>
#include <string>

#include "core/rollout/rollouts.h"

namespace xrun {

// Pushes the method of rollouts of this name, or their field `routes`, and returns true; false for
// any other name, and for a batch of data rows with a field of this name. Throws Error for another
// batch of data rows.
bool push_rollout_member(lua_State* L, const Batch& batch, const std::string& name);

// Returns the batch as rollouts. Throws Error if it was not sampled.
Rollouts& rollouts_of(Batch& batch);

// Returns the beginning of a prompt or an answer as one line, cut between two characters, for a
// message.
std::string shown_start(const std::string& text);

// rollouts:score and rollouts:score_groups, with their arguments on the stack.
int score_rollouts(lua_State* L);
int score_rollout_groups(lua_State* L);

}  // namespace xrun
