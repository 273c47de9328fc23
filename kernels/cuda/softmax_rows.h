#pragma once
// Softmax and target log-probability of rows of logits, on a CUDA stream.

#include <cstdint>

struct CUstream_st;

namespace xrun::kernels {

struct CudaSoftmaxRows {
  float* logits;          // [rows, width] row-major; with keep becomes softmax minus one-hot
  const int64_t* target;  // [rows], in [0, width); another value gives a NaN log-probability
  float* logprob;         // [rows] out: logits[target] - lse
  float* lse;             // [rows] out: log of the sum of exponentials
  int64_t rows;
  int64_t width;  // V
  bool keep;      // write the softmax back
};

// Both queue the kernel, never synchronise, and return a cudaError_t: 0 if it was queued.
int softmax_rows_cuda(const CudaSoftmaxRows& a, CUstream_st* stream);

// Turns logits into softmax minus one-hot, given each row's lse and target: recomputes rows that
// were not kept.
int softmax_from_lse_cuda(const CudaSoftmaxRows& a, CUstream_st* stream);

}  // namespace xrun::kernels
