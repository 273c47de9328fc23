#pragma once
// The types that a recipe's models are stored in and compute in, as settings and as the run has them.

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <lua.hpp>

#include "core/model/ops/linear.h"

namespace xrun {

class RunDir;

// Reads `dtype`. If it is not set, a resumed run keeps the type it began in on any device, with a
// notice if that is not the device's default: fp32 on the CPU, bf16 on a GPU. Throws Error if run.json
// has no type.
c10::ScalarType read_dtype(lua_State* L);

// Writes the type into the run's record, unless the configuration sets it.
void keep_dtype(lua_State* L, RunDir& dir);

class RunDir;
struct ModelConfig;

// Reads `gemm` for a model on a device. For bf16 weights on the CPU "auto" takes the choice that
// run.json has of a resumed run, else measures (gemm_choice.h) and records the choice for run.json and
// the report before step 0. Throws UsageError for bf16 products of fp32 weights.
GemmType read_gemm(lua_State* L, const ModelConfig& config, c10::ScalarType dtype,
                   c10::Device device);

// Writes the measured choices into the run's record; a notice names those that differ from a resumed
// run's.
void keep_measured(lua_State* L, RunDir& dir);

}  // namespace xrun
