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

// A product and both its gradients, in ms: the median of several.
struct GemmTimes {
  double storage_ms = 0, float_ms = 0;
};

struct GemmChoice {
  GemmType gemm = GemmType::kStorage;
  std::optional<GemmTimes> times = std::nullopt;  // the measurement; none: there was no choice
  bool remembered = false;                        // the times come from an earlier process
  std::string notice = {};                        // problem of the stored times; "": none
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

// Returns the faster type for a model's products, the storage type if both are equal or the weights
// are fp32. Times come from $XRUN_CACHE/measured/gemm/ under (processor, instruction sets, threads,
// torch, shape, type), or are measured and stored there. A damaged file is measured again, with a
// notice; a file that cannot be written is ignored.
GemmChoice choose_gemm(const ModelConfig& config, c10::ScalarType dtype,
                       const GemmClock& clock = time_gemm);

// {"gemm": "fp32", "fp32_ms": 12.5, "storage_ms": 20.1} from a choice with times, and back, as
// remembered. Throws Error that names a missing key or an invalid time.
Json to_json(const GemmChoice& choice);
GemmChoice gemm_from_json(const Json& json);

// "fp32: 12.5 ms a product with its gradients, 20.1 in bf16, measured now".
std::string describe(const GemmChoice& choice);

}  // namespace xrun
