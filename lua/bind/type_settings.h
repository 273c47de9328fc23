#pragma once
// The `dtype` and `gemm` settings: the storage type of a recipe's models and the compute type of
// products. Each comes from the configuration, from the run that is resumed, or is chosen for the
// machine.

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <lua.hpp>

#include "core/model/ops/linear.h"

namespace xrun {

class RunDir;
struct ModelConfig;

// Reads `dtype`. If it is not set, a resumed run keeps the type it began in, with a notice if that
// is not the device's default: fp32 on a CPU, bf16 on a GPU. Throws Error if run.json holds no
// type.
c10::ScalarType read_dtype(lua_State* L);

// Writes the type into the run's record, unless the configuration sets it.
void keep_dtype(lua_State* L, RunDir& dir);

// Reads `gemm` for a model on a device. For bf16 weights on the CPU "auto" takes the choice in
// run.json of a resumed run, else measures (gemm_choice.h) and notes the choice for run.json and
// the report before step 0. Throws UsageError for bf16 products of fp32 weights.
GemmType read_gemm(lua_State* L, const ModelConfig& config, c10::ScalarType dtype,
                   c10::Device device);

// Writes the measured choices into the run's record; adds a notice if a resumed run had others.
void keep_measured(lua_State* L, RunDir& dir);

}  // namespace xrun
