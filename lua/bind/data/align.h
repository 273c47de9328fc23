#pragma once
// xrun.align, and data sets aligned with a teacher.

#include <lua.hpp>
#include <memory>

#include "lua/bind/data/data_handle.h"

namespace xrun {

class Batch;
class Rollouts;
struct LuaParameter;

// The options after the teacher of a set or of rollouts.
LuaParameter align_options_parameter();

// Returns the set with companions in the tokens of the teacher at index i: anything with a
// tokenizer, with options after it. Without one if both have the same vocabulary. Reports how many
// tokens a sample of the rows covers. Throws Error for rows of a kind that cannot be aligned, and
// if no token of the sample is in a chunk.
std::shared_ptr<DataHandle> align_set(lua_State* L, const DataHandle& data, int i);

// Returns the same of sampled answers: with chunks in the tokens of the teacher at index i.
std::shared_ptr<Batch> aligned_rollouts(lua_State* L, const Rollouts& rollouts, int i);

}  // namespace xrun
