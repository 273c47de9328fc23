// Two passes: first the extremes and the sum, then the squares about the mean and the histogram.

#include "core/model/ops/tensor_statistics.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/narrow.h>
#include <ATen/ops/take.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/base/error.h"

namespace xrun {

namespace {

// Nearly every value of a sample is on a memory page of its own, which takes about 0.6 us.
constexpr int64_t kSample = 16384;
constexpr int64_t kPiece = 1 << 20;

// Elements at a stride that shares no factor with the element count, so that no row or column is
// favoured.
at::Tensor evenly_spread(const at::Tensor& tensor) {
  const int64_t count = tensor.numel();
  int64_t stride = std::max<int64_t>(1, count / kSample);
  while (stride > 1 && std::gcd(stride, count) != 1) --stride;
  // kSample stride <= count: the last index exists.
  const at::Tensor indices = at::arange(
      0, kSample * stride, stride, at::TensorOptions().dtype(at::kLong).device(tensor.device()));
  return at::take(tensor, indices);
}

// Calls each(value) for all elements, copied to the host piece by piece.
template <class Each>
void for_all(const at::Tensor& flat, const Each& each) {
  for (int64_t at = 0; at < flat.numel(); at += kPiece) {
    const at::Tensor piece = at::narrow(flat, 0, at, std::min(kPiece, flat.numel() - at))
                                 .cpu()
                                 .to(at::kDouble)
                                 .contiguous();
    const double* values = piece.const_data_ptr<double>();
    for (int64_t i = 0; i < piece.numel(); ++i) each(values[i]);
  }
}

}  // namespace

// Serves the prompt and pages, which show tensors of any kind.
bool has_statistics(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && !tensor.is_quantized() &&
         !at::isComplexType(tensor.scalar_type()) && tensor.device().type() != at::kMeta;
}

TensorStatistics tensor_statistics(const at::Tensor& tensor, int64_t sample_above) {
  XRUN_CHECK(has_statistics(tensor), "this tensor has no numbers that can be counted");
  const at::NoGradGuard no_grad;
  TensorStatistics out;
  out.elements = tensor.numel();
  // Reading all of a larger tensor would take seconds.
  const bool sampled =
      static_cast<int64_t>(tensor.nbytes()) > sample_above && out.elements > kSample;
  const at::Tensor flat = sampled ? evenly_spread(tensor.detach()) : tensor.detach().reshape({-1});
  out.sampled = flat.numel();
  double sum = 0;
  out.min = std::numeric_limits<double>::infinity();
  out.max = -out.min;
  for_all(flat, [&](double value) {
    if (!std::isfinite(value)) {
      ++(std::isnan(value) ? out.nans : out.infinities);
      return;
    }
    out.min = std::min(out.min, value);
    out.max = std::max(out.max, value);
    sum += value;
    ++out.finite;
  });
  // Without a finite value, min and max still have the bounds that the loop began with.
  if (out.finite == 0) {
    out.min = out.max = 0;
    return out;
  }
  out.mean = sum / static_cast<double>(out.finite);
  // max - min may overflow; half of it cannot.
  const double half_span = out.max / 2 - out.min / 2;
  double squares = 0;
  for_all(flat, [&](double value) {
    if (!std::isfinite(value)) return;
    squares += (value - out.mean) * (value - out.mean);
    // If all values are equal, they go to the first bin.
    const double share = half_span > 0 ? (value / 2 - out.min / 2) / half_span : 0;
    const auto bin = static_cast<int>(share * TensorStatistics::kBins);
    ++out.histogram[static_cast<size_t>(std::clamp(bin, 0, TensorStatistics::kBins - 1))];
  });
  out.deviation = std::sqrt(squares / static_cast<double>(out.finite));
  return out;
}

}  // namespace xrun
