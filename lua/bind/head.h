#pragma once
// Policy:head: log-probs, entropy, log-sum-exp and top k of trained tokens.

#include <lua.hpp>

namespace xrun {

class Policy;

// (view|batch, options?) -> a table of tensors, by the names of HeadResult.
int push_head(Policy& policy, lua_State* L);

}  // namespace xrun
