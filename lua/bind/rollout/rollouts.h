#pragma once
// The Lua methods of sampled batches.

#include <cstdint>
#include <lua.hpp>
#include <string>

#include "core/rollout/rollouts.h"

namespace xrun {

// Pushes a method of rollouts, or their field `routes`, by name and returns true. Returns false for
// any other name, and for a batch of data rows that has a field of the name; throws Error for a
// method of any other batch of data rows.
bool push_rollout_member(lua_State* L, const Batch& batch, const std::string& name);

// Returns the batch as rollouts. Throws Error if it was not sampled.
Rollouts& rollouts_of(Batch& batch);

// Returns the beginning of a prompt or an answer as one line for a message, cut between two
// characters.
std::string shown_start(const std::string& text);

// rollouts:score and rollouts:score_groups, with their arguments on the stack.
int score_rollouts(lua_State* L);
int score_rollout_groups(lua_State* L);

}  // namespace xrun
