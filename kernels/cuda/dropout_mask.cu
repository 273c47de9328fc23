// One thread writes the four elements of one Philox counter.

#include <cuda_runtime.h>

#include "kernels/cuda/dropout_mask.h"
#include "kernels/cuda/philox.h"

namespace xrun::kernels {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kWords = 4, kMaxBlocks = 65536;

__global__ void dropout_mask_kernel(CudaDropoutMask a) {
  const int64_t groups = (a.count + kWords - 1) / kWords;
  // A grid of fixed size strides over any number of groups.
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t g = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; g < groups;
       g += step) {
    const PhiloxWords words = philox_words(a.key, static_cast<uint64_t>(g));
    for (int64_t w = 0; w < kWords && g * kWords + w < a.count; ++w) {
      a.mask[g * kWords + w] = words.word[w] < a.limit ? 0.0f : a.kept;
    }
  }
}

}  // namespace

int dropout_mask_cuda(const CudaDropoutMask& a, CUstream_st* stream) {
  if (a.count == 0) return cudaSuccess;
  const int64_t groups = (a.count + kWords - 1) / kWords;
  const int64_t blocks = (groups + kThreads - 1) / kThreads;
  dropout_mask_kernel<<<static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks), kThreads,
                        0, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace xrun::kernels
