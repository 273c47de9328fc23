#pragma once
// The Lua methods that all models share: log-probs and outputs of the head.

#include <lua.hpp>

#include "lua/state/doc.h"

namespace xrun {

class LogprobSource;

// Pushes logprob(view), or token_logprob(view) if `by_token`. A batch is scored whole and without
// gradient, a view in the step's forward.
int push_logprobs(LogprobSource& source, lua_State* L, bool by_token);

// Pushes head(view, options).
int push_head(LogprobSource& source, lua_State* L);
LuaParameter head_options_parameter();

}  // namespace xrun
