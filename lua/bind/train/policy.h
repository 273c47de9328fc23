#pragma once
// Methods that models of every kind have in Lua: log-probs and outputs of the head.

#include <lua.hpp>

#include "lua/state/doc.h"

namespace xrun {

class LogprobSource;

// logprob(view) and, by token, token_logprob(view): a batch is scored whole and without gradient, a
// view in the step's forward.
int push_logprobs(LogprobSource& source, lua_State* L, bool by_token);

// head(view, options).
int push_head(LogprobSource& source, lua_State* L);
LuaParameter head_options_parameter();

}  // namespace xrun
