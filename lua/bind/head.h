#pragma once
// Policy:head and Reference:head: log-probs, entropy, log-sum-exp and top k of trained tokens.

#include <lua.hpp>

namespace xrun {

class Policy;
class Reference;

// (view|batch, options?) -> a table of tensors, by the names of HeadResult.
int push_policy_head(Policy& policy, lua_State* L);
int push_reference_head(Reference& reference, lua_State* L);

}  // namespace xrun
