#pragma once
// xrun.align, and data sets aligned with a teacher.

#include <lua.hpp>
#include <memory>

#include "lua/bind/data_handle.h"

namespace xrun {

// Returns the set with companions in the tokens of the teacher at index i: anything with a
// tokenizer, with options after it. Without one if both have the same vocabulary. Reports how many
// tokens a sample of the rows covers. Throws Error for rows of a kind that cannot be aligned, and
// if no token of the sample is in a chunk.
std::shared_ptr<DataHandle> align_set(lua_State* L, const DataHandle& data, int i);

// rollouts:align(teacher, options), with its arguments on the stack.
int push_aligned_rollouts(lua_State* L);

}  // namespace xrun
