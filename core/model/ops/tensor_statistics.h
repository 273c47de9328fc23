#pragma once
// Statistics of the values of a tensor: extremes, mean, deviation, a histogram.

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace xrun {

struct TensorStatistics {
  static constexpr int kBins = 32;

  int64_t elements = 0;  // of the tensor
  int64_t sampled = 0;   // elements that were read: all, or a sample
  int64_t nans = 0, infinities = 0;
  int64_t finite = 0;  // values that the fields below describe; if 0, these are 0
  double min = 0, max = 0, mean = 0;
  double deviation = 0;  // standard deviation of the population
  // Counts of finite values in equal parts of [min, max]. The last part includes max. If min ==
  // max, all values are in the first part.
  std::array<int64_t, kBins> histogram{};
};

// Reads every element, or 16,384 evenly spread ones if the tensor has more than `sample_above`
// bytes; copies at most a million at a time. Integers and booleans count as numbers. Throws Error
// unless has_statistics.
TensorStatistics tensor_statistics(const at::Tensor& tensor,
                                   int64_t sample_above = int64_t{64} << 20);

// Returns true if the tensor has real numbers to read: not complex, sparse, quantised or on `meta`.
bool has_statistics(const at::Tensor& tensor);

}  // namespace xrun
