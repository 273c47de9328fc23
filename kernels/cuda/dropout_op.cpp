// The CUDA form of xrun::dropout_mask.

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "kernels/cuda/dropout_mask.h"
#include "kernels/cuda/head_chunk.h"

namespace xrun {

namespace {

at::Tensor mask_cuda(const at::Tensor& like, int64_t key, int64_t limit, double kept) {
  const at::Tensor mask = at::empty(like.sizes(), like.options().dtype(at::kFloat));
  check_cuda(kernels::dropout_mask_cuda(
      {static_cast<uint64_t>(key), static_cast<uint64_t>(limit), static_cast<float>(kept),
       mask.mutable_data_ptr<float>(), mask.numel()},
      at::cuda::getCurrentCUDAStream()));
  return mask.to(like.scalar_type());
}

}  // namespace

TORCH_LIBRARY_IMPL(xrun, CUDA, m) { m.impl("dropout_mask", mask_cuda); }

}  // namespace xrun
