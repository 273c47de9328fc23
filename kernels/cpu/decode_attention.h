#pragma once
// Attention of one query row against cached keys and values.

#include <cstdint>

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
