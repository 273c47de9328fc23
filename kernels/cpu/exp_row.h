#pragma once
// The exponentials of one row of logits and their sum, from which a token is drawn.

#include "kernels/cpu/softmax_rows.h"
#include "kernels/cpu/vector.h"

namespace xrun::kernels {

// The exponentials of scale (x - most), rounded as HeadRows rounds them and summed in its order, so
// that a drawn token has the log-prob that the head gives it.
struct ExpRow {
  const float* x;  // [width] logits
  float* e;        // [width] out: e^(scale (x - most))
  float* most;     // out: the largest of x
  double* sum;     // out: of e
  int64_t width;
  float scale;  // above 0: 1 / temperature
};

}  // namespace xrun::kernels

#ifdef XRUN_VECTOR_BYTES

namespace xrun::kernels {

namespace {

void compute(const ExpRow& a) {
  *a.most = row_max(a.x, a.width);
  const VF shift = splat(*a.most);
  each_vector(a.width, [&](int64_t i, int n) {
    store_some(a.e + i, (load_some(a.x + i, n) - shift) * a.scale, n);
  });
  // The maximum is already subtracted, so the shift is 0.
  *a.sum = sum_exp<true>(a.e, a.width, 0.0f);
}

}  // namespace

}  // namespace xrun::kernels

#endif
