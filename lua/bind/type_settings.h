#pragma once
// Settings that depend on the model: `dtype` and `gemm`, the storage type of a recipe's models and
// the compute type of products, each from the configuration, from the run that is resumed or chosen
// for the machine; and `max_length`.

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <lua.hpp>

#include "core/model/ops/linear.h"

namespace xrun {

class Policy;
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

// Checks a recipe's max_length against the positions of its model; 0 is the model's own limit.
// Throws UsageError beyond learned positions. Rotary ones continue beyond those that the model was
// trained on: that is a notice.
void check_max_length(lua_State* L, int64_t length, const Policy& policy);

// Writes the measured choices into the run's record; adds a notice if a resumed run had others.
void keep_measured(lua_State* L, RunDir& dir);

}  // namespace xrun
