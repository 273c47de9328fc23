#pragma once
// Settings that depend on the model: `dtype`, the storage type of its weights, `gemm`, the compute
// type of its products, and `max_length`. If the configuration does not set dtype or gemm, the
// resumed run decides, else the machine.

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <lua.hpp>

#include "core/model/ops/linear.h"

namespace xrun {

class Policy;
class RunDir;
struct ModelConfig;

// Reads `dtype`. The default is fp32 on a CPU and bf16 on a GPU, but a resumed run keeps the type
// it began in, with a notice if that is not the default. Throws Error if the type in run.json
// cannot be read.
c10::ScalarType read_dtype(lua_State* L);

// Writes the type into the run's record, unless the configuration sets it.
void keep_dtype(lua_State* L, RunDir& dir);

// Reads `gemm` for a model on a device. For bf16 weights on the CPU "auto" takes the choice of a
// resumed run, else that of a bundle's recorded run, else measures (gemm_choice.h). The choice goes
// to run.json and into the report before step 0. Throws UsageError for bf16 products of fp32
// weights.
GemmType read_gemm(lua_State* L, const ModelConfig& config, c10::ScalarType dtype,
                   c10::Device device);

// Checks a recipe's max_length against the positions of its model; 0 is the model's own limit.
// Throws UsageError beyond learned positions; beyond rotary ones, which extrapolate, adds a notice.
void check_max_length(lua_State* L, int64_t length, const Policy& policy);

// Writes the measured choices into the run's record; adds a notice if a resumed run had others.
void keep_measured(lua_State* L, RunDir& dir);

}  // namespace xrun
