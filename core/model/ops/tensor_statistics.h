#pragma once
// What the numbers of a tensor are like: extremes, mean, spread, a histogram.

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace xrun {

struct TensorStatistics {
  static constexpr int kBins = 32;

  int64_t elements = 0;   // of the tensor
  int64_t looked_at = 0;  // of these: all, or a sample
  int64_t nans = 0, infinities = 0;
  int64_t finite = 0;  // what the rest is about; 0: the rest is 0
  double min = 0, max = 0, mean = 0;
  double deviation = 0;  // standard, of the population
  // Finite values in equal parts of [min, max], the last one with its upper end; all in the first
  // where min == max.
  std::array<int64_t, kBins> histogram{};
};

// Looks at every element, or at 65,536 spread evenly if the tensor has more than `sample_above`
// bytes; copies at most a million elements at a time. Integers and booleans count as numbers.
// Throws Error of a tensor without numbers to read: complex, sparse, quantised, on `meta`.
TensorStatistics tensor_statistics(const at::Tensor& tensor,
                                   int64_t sample_above = int64_t{64} << 20);

// Whether tensor_statistics takes it.
bool has_statistics(const at::Tensor& tensor);

}  // namespace xrun
