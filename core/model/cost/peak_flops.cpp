// peak = max over products of 2 n^3 / seconds.

#include "core/model/cost/peak_flops.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/process_usage.h"
#include "core/model/cost/measured_value.h"
#include "core/model/ops/matrix_product.h"
#include "core/model/weights/hf_config.h"

namespace xrun {

namespace {

constexpr double kProbeSeconds = 0.2;
// A product below this length is too short for its full rate, so the next one is twice as wide. The
// first width keeps a type without its own instructions (bf16 on an old processor) within the
// time; the last one, 16 MB per matrix in fp32, is enough for any CPU.
constexpr double kLongProduct = 0.01;
constexpr int64_t kFirstWidth = 256, kLastWidth = 2048;
constexpr double kMaxFlops = 1e18;

// Square operands and their product. Values are waves, since zeros would multiply faster.
struct SquareProduct {
  SquareProduct(int64_t n, c10::ScalarType dtype)
      : a(at::arange(n * n, at::kFloat).mul_(0.37).sin_().view({n, n}).to(dtype)),
        b(a.t().contiguous()),
        out(at::empty({n, n}, dtype)) {}

  double blas_seconds() {
    const auto begin = SteadyClock::now();
    at::mm_out(out, a, b);
    return seconds_since(begin);
  }
  double onednn_seconds() {
    const auto begin = SteadyClock::now();
    multiply_into(out, a, b);
    return seconds_since(begin);
  }

  double own_seconds() {
    const auto begin = SteadyClock::now();
    multiply_rows_into(out, a, b);
    return seconds_since(begin);
  }

  at::Tensor a, b, out;
};

// A damaged file may hold anything.
bool is_peak(double flops) { return flops > 0 && flops < kMaxFlops; }

// Returns nullopt if the file is missing, damaged or without a rate.
std::optional<double> remembered_peak(const MeasuredValue& stored) {
  try {
    const std::optional<Json> value = stored.read();
    if (value && is_peak(value->as_double())) return value->as_double();
  } catch (const Error&) {
    // Measured again: the rate is displayed and decides nothing.
  }
  return std::nullopt;
}

}  // namespace

double time_peak(c10::ScalarType dtype) {
  const at::NoGradGuard no_grad;
  const auto begin = SteadyClock::now();
  double peak = 0;
  // A peak is the best rate of any width and library, not the mean.
  for (int64_t n = kFirstWidth; seconds_since(begin) < kProbeSeconds; n *= 2) {
    SquareProduct product(n, dtype);
    const double flops = 2.0 * std::pow(static_cast<double>(n), 3);
    double seconds = 0;
    // Only a product that is long enough is repeated; shorter ones run once.
    do {
      seconds = product.blas_seconds();
      // at::mm multiplies bf16 with oneDNN already
      if (dtype == c10::ScalarType::Float) {
        seconds = std::min({seconds, product.onednn_seconds(), product.own_seconds()});
      }
      peak = std::max(peak, flops / seconds);
    } while (seconds_since(begin) < kProbeSeconds && (seconds > kLongProduct || n == kLastWidth));
  }
  return peak;
}

double measured_peak_flops(c10::ScalarType dtype, double reached,
                           const std::function<double(c10::ScalarType)>& clock) {
  // "products" is the number of implementations that are timed, so that a value of fewer is
  // measured again.
  const MeasuredValue stored("peak", "flops_per_s",
                             Json(Json::Object{{"dtype", dtype_name(dtype)}, {"products", 3}}));
  if (const auto known = remembered_peak(stored); known && *known >= reached) return *known;
  const double peak = std::max(clock(dtype), reached);
  stored.write(Json(peak));
  return peak;
}

}  // namespace xrun
