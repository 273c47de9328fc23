#pragma once
// The types that a recipe's models are stored in and compute in, as settings and as the run has them.

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <lua.hpp>

#include "core/model/ops/linear.h"

namespace xrun {

class RunDir;

// Reads `dtype`. Where it is not set, the run that is resumed keeps the type it began in, whatever
// device it goes on on, with a notice where that is not the device's own: fp32 of the CPU, bf16 of
// a GPU. Throws Error where run.json says no type.
c10::ScalarType read_dtype(lua_State* L);

// Writes the type into the record of a folder's run, unless the configuration says it.
void keep_dtype(lua_State* L, RunDir& dir);

class RunDir;
struct ModelConfig;

// Reads `gemm` for a model on a device. "auto" of bf16 weights on the CPU takes what run.json has
// of a run that is resumed, else chooses (gemm_choice.h), notes it for run.json and for the report
// before step 0. Throws UsageError if products are to be bf16 and weights fp32.
GemmType read_gemm(lua_State* L, const ModelConfig& config, c10::ScalarType dtype,
                   c10::Device device);

// Writes what was measured into the record of a folder's run; a notice says where a run that is
// resumed had other values.
void keep_measured(lua_State* L, RunDir& dir);

}  // namespace xrun
