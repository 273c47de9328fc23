// The CUDA form of xrun::dropout_mask.

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <torch/library.h>

#include "kernels/cuda/dropout_mask.h"

namespace xrun {

namespace {

at::Tensor dropout_mask_cuda(const at::Tensor& like, int64_t key, int64_t limit, double scale) {
  const at::Tensor mask = at::empty(like.sizes(), like.options().dtype(at::kFloat));
  C10_CUDA_CHECK(static_cast<cudaError_t>(kernels::dropout_mask_cuda(
      {static_cast<uint64_t>(key), static_cast<uint64_t>(limit), static_cast<float>(scale),
       mask.mutable_data_ptr<float>(), mask.numel()},
      at::cuda::getCurrentCUDAStream())));
  return mask.to(like.scalar_type());
}

}  // namespace

TORCH_LIBRARY_IMPL(xrun, CUDA, m) { m.impl("dropout_mask", dropout_mask_cuda); }

}  // namespace xrun
