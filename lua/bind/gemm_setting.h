#pragma once
// The type that a recipe's products compute in: the configuration's, that of the run that is
// resumed, or the one that is faster on this machine.

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <lua.hpp>

#include "core/model/ops/linear.h"

namespace xrun {

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
