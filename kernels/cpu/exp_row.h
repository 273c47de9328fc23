#pragma once
// The exponentials of one row of logits, for a draw from its softmax.

#include <cstdint>

namespace xrun::kernels {

// Divides a row by a temperature, and takes the exponentials of its distances from the largest.
struct ExpRow {
  float* x;     // [width] logits; divided by `temperature` afterwards
  float* e;     // [width] out: exp(x - most)
  float* most;  // out: the largest of x
  double* sum;  // out: of e
  int64_t width;
  float temperature;  // above 0
};

}  // namespace xrun::kernels
