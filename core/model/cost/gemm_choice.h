#pragma once
// The compute type in which products of bf16 weights are faster on this machine, measured once.

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/base/json.h"
#include "core/model/ops/linear.h"

namespace xrun {

struct ModelConfig;

// Times of a product with both its gradients, in ms: medians of several runs.
struct GemmTimes {
  double storage_ms = 0, float_ms = 0;
};

struct GemmChoice {
  GemmType gemm = GemmType::kStorage;
  std::optional<GemmTimes> times = std::nullopt;  // nullopt: there was no choice to measure
  bool remembered = false;                        // the times come from an earlier process
  std::string notice = {};                        // what is wrong with stored times; "": nothing
};

// The product that is timed, [rows, in] by [out, in].
struct GemmShape {
  int64_t rows = 0, in = 0, out = 0;
};

// Returns the shape of a model's feed-forward, cut to a size that takes a second or two.
GemmShape gemm_shape(const ModelConfig& config);

using GemmClock = std::function<GemmTimes(const GemmShape&, c10::ScalarType)>;

// Times both types in alternation. Uses no random numbers.
GemmTimes time_gemm(const GemmShape& shape, c10::ScalarType dtype);

// Returns the faster type for a model's products; the storage type if both are equally fast or the
// weights are fp32. The times come from $XRUN_CACHE/measured/gemm/, under (processor, instruction
// sets, threads, torch, shape, type), or are measured and stored there. For a damaged file they are
// measured again, with a notice; a file that cannot be written is ignored.
GemmChoice choose_gemm(const ModelConfig& config, c10::ScalarType dtype,
                       const GemmClock& clock = time_gemm);

// Returns {"gemm": "fp32", "fp32_ms": 12.5, "storage_ms": 20.1} for a choice with times.
Json to_json(const GemmChoice& choice);
// Reads it back, as a remembered choice. Throws Error that names a missing key or an invalid time.
GemmChoice gemm_from_json(const Json& json);

// Returns "fp32: 12.5 ms a product with its gradients, 20.1 in bf16, measured now".
std::string describe(const GemmChoice& choice);

}  // namespace xrun
