#pragma once
// Dropout masks on a CUDA stream; core/model/ops/dropout.cpp makes those of the CPU.

#include <cstdint>

struct CUstream_st;

namespace xrun::kernels {

// Element i is dropped if word i % 4 of Philox(key, i / 4) is below `limit`.
struct CudaDropoutMask {
  uint64_t key;
  uint64_t limit;  // out of 2^32
  float kept;      // the value of an element that stays
  float* mask;     // [count] out
  int64_t count;
};

// Queues the kernel, never synchronises, and returns a cudaError_t: 0 if it was queued.
int dropout_mask_cuda(const CudaDropoutMask& a, CUstream_st* stream);

}  // namespace xrun::kernels
