#pragma once
// Dropout masks on a CUDA stream; the CPU's are made in core/model/ops/dropout_mask.cpp.

#include <cstdint>

struct CUstream_st;

namespace xrun::kernels {

// Element i is dropped if word i % 4 of Philox(key, i / 4) is below `limit`.
struct CudaDropoutMask {
  uint64_t key;
  uint64_t limit;  // of 2^32
  float kept;      // value of an element that stays
  float* mask;     // [count] out
  int64_t count;
};

// Queues the kernel; never synchronises. Returns a cudaError_t, 0 when it was queued.
int dropout_mask_cuda(const CudaDropoutMask& a, CUstream_st* stream);

}  // namespace xrun::kernels
