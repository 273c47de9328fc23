#pragma once
// The type that a recipe's models are stored in: the configuration's, that of the run that is
// resumed, or the device's own.

#include <c10/core/ScalarType.h>

#include <lua.hpp>

namespace xrun {

class RunDir;

// Reads `dtype`. Where it is not set, the run that is resumed keeps the type it began in, whatever
// device it goes on on, with a notice where that is not the device's own: fp32 of the CPU, bf16 of
// a GPU. Throws Error where run.json says no type.
c10::ScalarType read_dtype(lua_State* L);

// Writes the type into the record of a folder's run, unless the configuration says it.
void keep_dtype(lua_State* L, RunDir& dir);

}  // namespace xrun
