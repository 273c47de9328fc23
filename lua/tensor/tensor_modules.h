#pragma once
// The parts of the module table that make and use tensors.

#include "lua/state/lua_state.h"

namespace xrun {

// xrun.tensor, no_grad, scope, keep, close, manual_seed and the names of dtypes.
void open_tensor_functions(LuaState& state);

// xrun.ops.<namespace>.<operator>, and xrun.<operator> for every public operator of ATen; an
// unknown name of the module is an error with did-you-mean.
void open_ops(LuaState& state);

}  // namespace xrun
