#pragma once
// The AdamW update and the sum of squares for a gradient norm, over flat fp32 memory.

#include <cstdint>

namespace xrun::kernels {

// Factors of one update of one weight (torch.optim.AdamW, single-tensor form).
struct AdamWFactors {
  float decay;       // 1 - lr * weight_decay; 1 without decay
  float beta1_rest;  // 1 - beta1
  float beta2;
  float beta2_rest;  // 1 - beta2
  float step;        // lr / (1 - beta1^t)
  float root;        // sqrt(1 - beta2^t)
  float eps;
  float clip;  // factor of the gradient
};

// Updates n elements in place: p *= decay; m += (g - m) (1 - beta1); v = beta2 v + (1 - beta2) g^2;
// p -= step m / (sqrt(v) / root + eps), where g is the gradient times clip. Elements are
// independent: any split gives the same bits.
void adamw_update(float* p, const float* g, float* m, float* v, int64_t n,
                  const AdamWFactors& factors);

// Returns the sum of squares of n elements in fp64. Split at fixed boundaries to get fixed bits.
double sum_of_squares(const float* x, int64_t n);

}  // namespace xrun::kernels
