#pragma once
// Exponentials of one row of logits, to draw from its softmax.

#include "kernels/cpu/softmax_rows.h"
#include "kernels/cpu/vector.h"

namespace xrun::kernels {

// Divides a row by a temperature, then takes the exponentials of the distances from its maximum.
struct ExpRow {
  float* x;     // [width] logits; divided by `temperature` in place
  float* e;     // [width] out: exp(x - most)
  float* most;  // out: the largest of x
  double* sum;  // out: of e
  int64_t width;
  float temperature;  // above 0
};

}  // namespace xrun::kernels

#ifdef XRUN_VECTOR_BYTES

namespace xrun::kernels {

namespace {

// Divides, as the scorer of the draw does: multiplying by 1 / T would round differently.
void compute(const ExpRow& a) {
  if (a.temperature != 1.0f) {
    each_vector(a.width, [&](int64_t i, int n) {
      store_some(a.x + i, load_some(a.x + i, n) / splat(a.temperature), n);
    });
  }
  *a.most = row_max(a.x, a.width);
  __builtin_memcpy(a.e, a.x, static_cast<unsigned long>(a.width) * sizeof(float));
  *a.sum = sum_exp<true>(a.e, a.width, *a.most);
}

}  // namespace

}  // namespace xrun::kernels

#endif
