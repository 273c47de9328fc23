#pragma once
// Which type products of bf16 weights compute in faster on this machine, measured once.

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
  std::optional<GemmTimes> times = std::nullopt;  // what it rests on; none: there was no choice
  bool remembered = false;                        // the times are of an earlier process
  std::string notice = {};                        // what was wrong with those kept; "": nothing
};

// The product that is timed, [rows, in] by [out, in].
struct GemmShape {
  int64_t rows = 0, in = 0, out = 0;
};

// That of a model's feed-forward, cut to a size that takes a second or two.
GemmShape gemm_shape(const ModelConfig& config);

using GemmClock = std::function<GemmTimes(const GemmShape&, c10::ScalarType)>;

// Times both ways in alternation. Draws no random number.
GemmTimes time_gemm(const GemmShape& shape, c10::ScalarType dtype);

// Returns the faster type of a model's products, the storage type where both are alike. Weights in
// fp32 leave no choice. The times are those in $XRUN_CACHE/measured/gemm/ under (processor,
// instruction sets, threads, torch, shape, type), else they are measured and kept there. A file
// that is damaged is measured and written again, with a notice; one that cannot be written changes
// nothing.
GemmChoice choose_gemm(const ModelConfig& config, c10::ScalarType dtype,
                       const GemmClock& clock = time_gemm);

// {"gemm": "fp32", "fp32_ms": 12.5, "storage_ms": 20.1} of a choice with times, and back, as
// remembered. Throws Error that names what is missing or no time.
Json to_json(const GemmChoice& choice);
GemmChoice gemm_from_json(const Json& json);

// "fp32: 12.5 ms a product with its gradients, 20.1 in bf16, measured now".
std::string describe(const GemmChoice& choice);

}  // namespace xrun
