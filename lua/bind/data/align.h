#pragma once
// xrun.align, and data sets aligned with a teacher.

#include <lua.hpp>
#include <memory>

#include "lua/bind/data/data_handle.h"

namespace xrun {

class Batch;
class Rollouts;
struct LuaParameter;

// The options that follow the teacher of a set or of rollouts.
LuaParameter align_options_parameter();

// Returns the set aligned with the teacher at index i (anything with a tokenizer; options follow
// it): each row gets a companion in the teacher's tokens, unless both have the same vocabulary.
// Reports the share of trained tokens that is aligned in a sample of the rows. Throws Error for
// rows of a kind that cannot be aligned, and if no token of the sample is in a chunk.
std::shared_ptr<DataHandle> align_set(lua_State* L, const DataHandle& data, int i);

// Returns sampled answers with chunks in the tokens of the teacher at index i.
std::shared_ptr<Batch> aligned_rollouts(lua_State* L, const Rollouts& rollouts, int i);

}  // namespace xrun
