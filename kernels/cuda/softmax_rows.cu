// One block per row. With z the logits: m = max z, s = sum exp(z - m), lse = m + log s. Each thread
// keeps a running (m, s) pair, so a row is read once for lse and once more to write the softmax:
//   (m1, s1) + (m2, s2) = (m, s1 exp(m1 - m) + s2 exp(m2 - m)),  m = max(m1, m2).

#include <cuda_runtime.h>

#include <cmath>

#include "kernels/cuda/softmax_rows.h"

namespace xrun::kernels {

namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;

struct MaxSum {
  float max, sum;
};

__device__ MaxSum merge(MaxSum a, MaxSum b) {
  const float max = fmaxf(a.max, b.max);
  // Two empty partial sums would give inf - inf.
  if (max == -INFINITY) return {max, 0.0f};
  return {max, a.sum * expf(a.max - max) + b.sum * expf(b.max - max)};
}

__device__ MaxSum merge_warp(MaxSum value) {
  for (int step = 16; step > 0; step /= 2) {
    value = merge(value, {__shfl_xor_sync(0xffffffffu, value.max, step),
                          __shfl_xor_sync(0xffffffffu, value.sum, step)});
  }
  return value;
}

// The order of the merges depends on the width alone, so equal rows give equal bits.
__device__ float row_lse(const float* z, int64_t width) {
  __shared__ MaxSum parts[kWarps];
  MaxSum own = {-INFINITY, 0.0f};
  for (int64_t i = threadIdx.x; i < width; i += kThreads) own = merge(own, {z[i], 1.0f});
  own = merge_warp(own);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = own;
  __syncthreads();
  // Every warp merges all partial sums itself, so no second barrier is needed.
  MaxSum all = threadIdx.x % 32 < kWarps ? parts[threadIdx.x % 32] : MaxSum{-INFINITY, 0.0f};
  all = merge_warp(all);
  return all.max + logf(all.sum);
}

__device__ void write_softmax(float* z, int64_t width, int64_t target, float lse) {
  for (int64_t i = threadIdx.x; i < width; i += kThreads) {
    z[i] = expf(z[i] - lse) - (i == target ? 1.0f : 0.0f);
  }
}

__global__ void softmax_rows_kernel(CudaSoftmaxRows a) {
  const int64_t row = blockIdx.x;
  float* z = a.logits + row * a.width;
  const float lse = row_lse(z, a.width);
  const int64_t target = a.target[row];
  if (threadIdx.x == 0) {
    const bool inside = target >= 0 && target < a.width;
    a.logprob[row] = inside ? z[target] - lse : NAN;
    a.lse[row] = lse;
  }
  __syncthreads();  // the target's logit is read before it is overwritten
  if (a.keep) write_softmax(z, a.width, target, lse);
}

__global__ void softmax_from_lse_kernel(CudaSoftmaxRows a) {
  const int64_t row = blockIdx.x;
  write_softmax(a.logits + row * a.width, a.width, a.target[row], a.lse[row]);
}

}  // namespace

int softmax_rows_cuda(const CudaSoftmaxRows& a, CUstream_st* stream) {
  if (a.rows == 0) return cudaSuccess;
  softmax_rows_kernel<<<static_cast<unsigned>(a.rows), kThreads, 0, stream>>>(a);
  return cudaGetLastError();
}

int softmax_from_lse_cuda(const CudaSoftmaxRows& a, CUstream_st* stream) {
  if (a.rows == 0) return cudaSuccess;
  softmax_from_lse_kernel<<<static_cast<unsigned>(a.rows), kThreads, 0, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace xrun::kernels
