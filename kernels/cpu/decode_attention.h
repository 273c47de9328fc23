#pragma once
// Attention of one query row per head against cached keys and values: scores, softmax and weighted
// sum in fp32.

#include "kernels/cpu/softmax_rows.h"
#include "kernels/cpu/vector.h"

namespace xrun::kernels {

// One query against n cached keys: y = softmax(scale q k^T) v for each query head of one sequence.
// Query head h reads key head h / (heads / kv_heads).
template <class T>
struct DecodeAttention {
  const T* q;      // [heads, K]
  const T* k;      // [kv_heads, capacity, K], of which n rows are filled
  const T* v;      // the same
  T* y;            // [heads, K]
  float* scratch;  // [n]
  int64_t n, capacity, heads, kv_heads, head_dim;
  float scale;
};

}  // namespace xrun::kernels

#ifdef XRUN_VECTOR_BYTES

namespace xrun::kernels {

namespace {

template <class T>
void compute(const DecodeAttention<T>& a) {
  const int64_t group = a.heads / a.kv_heads;
  for (int64_t h = 0; h < a.heads; ++h) {
    const int64_t cache = (h / group) * a.capacity * a.head_dim;
    const T* q = a.q + h * a.head_dim;
    float most = -__builtin_inff();
    for (int64_t j = 0; j < a.n; ++j) {
      const T* k = a.k + cache + j * a.head_dim;
      VF sum = {};
      each_vector(a.head_dim,
                  [&](int64_t i, int n) { sum += load_some(q + i, n) * load_some(k + i, n); });
      a.scratch[j] = sum_of(sum) * a.scale;
      most = a.scratch[j] > most ? a.scratch[j] : most;
    }
    const double total = sum_exp<true>(a.scratch, a.n, most);
    const float norm = static_cast<float>(1.0 / total);
    each_vector(a.head_dim, [&](int64_t i, int n) {
      const T* v = a.v + cache + i;
      VF sum = {};
      for (int64_t j = 0; j < a.n; ++j) {
        sum += load_some(v + j * a.head_dim, n) * (a.scratch[j] * norm);
      }
      store_some(a.y + h * a.head_dim + i, sum, n);
    });
  }
}

}  // namespace

}  // namespace xrun::kernels

#endif
