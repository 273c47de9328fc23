#pragma once
// Log-probabilities of several targets, log-sum-exp and entropy of rows of logits, and the gradient
// of the logits, on a CUDA stream. kernels/cpu/head_rows.h is the CPU's; here the caller finds the
// top k.

#include <cstdint>

struct CUstream_st;

namespace xrun::kernels {

// Here s = scale * z over the first `columns` logits z of a row; later columns are not read.
struct CudaHeadRows {
  const float* z;  // [rows, width]
  int64_t rows;
  int64_t width;    // elements between two rows
  int64_t columns;  // V, at most width
  float scale;
  const int64_t* target;  // [rows, targets]; outside [0, columns) gives a NaN log-probability
  int64_t targets;
  float* logprob;  // [rows, targets] out
  float* lse;      // [rows] out
  float* entropy;  // [rows] out; null if not wanted
};

// dz = scale (sum_i grad_i (e_(id_i) - p) + grad_lse p - grad_entropy p (log p + entropy)), and 0
// in the padding.
struct CudaHeadRowsBackward {
  const float* z;  // [rows, width]
  float* dz;       // [rows, width] out; may be z
  int64_t rows;
  int64_t width;    // elements between two rows
  int64_t columns;  // V, at most width
  float scale;
  const int64_t* id;  // [rows, ids]; those outside [0, columns) are skipped
  const float* grad;  // [rows, ids]
  int64_t ids;
  const float* lse;           // [rows]
  const float* grad_lse;      // [rows]
  const float* entropy;       // [rows]; null with grad_entropy
  const float* grad_entropy;  // [rows] or null
};

// Both queue the kernel, never synchronise, and return a cudaError_t: 0 if it was queued.
int head_rows_cuda(const CudaHeadRows& a, CUstream_st* stream);
int head_rows_backward_cuda(const CudaHeadRowsBackward& a, CUstream_st* stream);

}  // namespace xrun::kernels
