#pragma once
// Methods that a batch has if it was sampled.

#include <lua.hpp>
#include <string>

namespace xrun {

class Batch;

// Pushes the method of rollouts of this name and returns true; false for any other name, and for a
// batch of data rows with a field of this name. Throws Error for another batch of data rows.
bool push_rollout_method(lua_State* L, const Batch& batch, const std::string& name);

}  // namespace xrun
