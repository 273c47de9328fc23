// One block per row. With s the scaled logits and m = max s, each thread keeps a running
// (m, sum e^(s - m), sum e^(s - m) (s - m)). To merge two of them, each is shifted to the larger
// maximum m and their sums are added; a shift from m1 to m, with d = m1 - m, is
//   sum = sum1 e^d,  weighted = e^d (weighted1 + d sum1).
// Then lse = m + log sum and entropy = log sum - weighted / sum.

#include <cuda_runtime.h>

#include <cmath>

#include "kernels/cuda/head_rows.h"

namespace xrun::kernels {

namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;

struct Sums {
  float max;       // m
  float sum;       // of e^(s - m)
  float weighted;  // of e^(s - m) (s - m)
};

// Returns the sums of a part relative to another maximum.
__device__ Sums shifted(Sums part, float max) {
  if (part.sum == 0.0f) return {max, 0.0f, 0.0f};  // empty: part.max is -inf
  const float d = part.max - max, factor = expf(d);
  return {max, part.sum * factor, factor * (part.weighted + d * part.sum)};
}

__device__ Sums merge(Sums a, Sums b) {
  const float max = fmaxf(a.max, b.max);
  const Sums x = shifted(a, max), y = shifted(b, max);
  return {max, x.sum + y.sum, x.weighted + y.weighted};
}

__device__ Sums merge_warp(Sums value) {
  for (int step = 16; step > 0; step /= 2) {
    value = merge(value, {__shfl_xor_sync(0xffffffffu, value.max, step),
                          __shfl_xor_sync(0xffffffffu, value.sum, step),
                          __shfl_xor_sync(0xffffffffu, value.weighted, step)});
  }
  return value;
}

// The order of the merges depends on the number of columns alone, so equal rows give equal bits.
__device__ Sums row_sums(const float* z, int64_t columns, float scale) {
  __shared__ Sums parts[kWarps];
  Sums own = {-INFINITY, 0.0f, 0.0f};
  for (int64_t i = threadIdx.x; i < columns; i += kThreads) {
    const float s = __fmul_rn(z[i], scale);  // never fused with a sum: every use has the same bits
    if (s != -INFINITY) own = merge(own, {s, 1.0f, 0.0f});  // a masked column adds nothing
  }
  own = merge_warp(own);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = own;
  __syncthreads();
  const Sums part =
      threadIdx.x % 32 < kWarps ? parts[threadIdx.x % 32] : Sums{-INFINITY, 0.0f, 0.0f};
  return merge_warp(part);
}

__global__ void head_rows_kernel(CudaHeadRows a) {
  const int64_t row = blockIdx.x;
  const float* z = a.z + row * a.width;
  const Sums all = row_sums(z, a.columns, a.scale);
  const float log_sum = logf(all.sum), lse = all.max + log_sum;
  if (threadIdx.x == 0) {
    a.lse[row] = lse;
    if (a.entropy != nullptr) a.entropy[row] = log_sum - all.weighted / all.sum;
  }
  for (int64_t m = threadIdx.x; m < a.targets; m += kThreads) {
    const int64_t target = a.target[row * a.targets + m];
    // Ids are not checked on the host: a wrong one gives NaN, which stops the run.
    const bool inside = target >= 0 && target < a.columns;
    a.logprob[row * a.targets + m] =
        inside ? __fmul_rn(z[target], a.scale) - all.max - log_sum : NAN;
  }
}

__global__ void head_rows_backward_kernel(CudaHeadRowsBackward a) {
  const int64_t row = blockIdx.x;
  const float* z = a.z + row * a.width;
  float* dz = a.dz + row * a.width;
  const float* grad = a.grad + row * a.ids;
  float lift = a.grad_lse[row];
  for (int64_t i = 0; i < a.ids; ++i) lift -= grad[i];
  // Summed again instead of taken from lse, whose rounding would spoil p at low temperatures.
  const Sums all = row_sums(z, a.columns, a.scale);
  const float log_sum = logf(all.sum);
  const float c = a.grad_entropy != nullptr ? a.grad_entropy[row] : 0.0f;
  const float entropy = a.grad_entropy != nullptr ? a.entropy[row] : 0.0f;
  for (int64_t i = threadIdx.x; i < a.width; i += kThreads) {
    const float d = i < a.columns ? __fmul_rn(z[i], a.scale) - all.max - log_sum : -INFINITY;
    const float p = expf(d);
    dz[i] = p == 0.0f ? 0.0f : a.scale * p * (lift - c * (d + entropy));
  }
  // The whole row must be written before the gradients of single ids are added.
  __syncthreads();
  if (threadIdx.x != 0) return;  // ids may repeat and are few
  for (int64_t i = 0; i < a.ids; ++i) {
    const int64_t id = a.id[row * a.ids + i];
    if (id >= 0 && id < a.columns) dz[id] += grad[i] * a.scale;
  }
}

}  // namespace

int head_rows_cuda(const CudaHeadRows& a, CUstream_st* stream) {
  if (a.rows == 0) return cudaSuccess;
  head_rows_kernel<<<static_cast<unsigned>(a.rows), kThreads, 0, stream>>>(a);
  return cudaGetLastError();
}

int head_rows_backward_cuda(const CudaHeadRowsBackward& a, CUstream_st* stream) {
  if (a.rows == 0) return cudaSuccess;
  head_rows_backward_kernel<<<static_cast<unsigned>(a.rows), kThreads, 0, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace xrun::kernels
