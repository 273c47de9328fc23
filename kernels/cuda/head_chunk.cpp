#include "kernels/cuda/head_chunk.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>

#include <algorithm>

namespace xrun {

int64_t cuda_rows_within(int64_t head_mb, int64_t rows, int64_t vocab) {
  const int64_t bytes = std::clamp<int64_t>(head_mb, 0, int64_t{1} << 40) << 20;
  const int64_t fit = bytes / (vocab * 4);
  return fit >= rows ? rows : fit / kCudaHeadRows * kCudaHeadRows;
}

at::Tensor cuda_product(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == at::kFloat ? at::mm(a, b) : at::mm(a, b, at::kFloat);
}

CudaHeadGradients::CudaHeadGradients(const at::Tensor& x, const at::Tensor& weight,
                                     bool want_hidden, bool want_weight)
    : x_(x), weight_(weight) {
  const auto floats = weight.options().dtype(at::kFloat);
  if (want_hidden) dx_ = at::empty(x.sizes(), floats);
  if (want_weight) dweight_ = at::zeros(weight.sizes(), floats);
}

void CudaHeadGradients::add(const at::Tensor& dz, int64_t begin, const at::Tensor& scale) {
  const int64_t n = dz.size(0);
  const at::Tensor p = dz.to(weight_.scalar_type());
  at::Tensor factor;
  if (scale.defined()) factor = scale.narrow(0, begin, n);
  if (dx_.defined()) {
    at::Tensor dx = cuda_product(p, weight_);
    if (factor.defined()) dx.mul_(factor);
    dx_.narrow(0, begin, n).copy_(dx);
  }
  if (dweight_.defined()) {
    at::Tensor x = x_.narrow(0, begin, n);
    if (factor.defined()) x = x.mul(factor).to(weight_.scalar_type());
    dweight_.add_(cuda_product(p.t(), x));
  }
}

at::Tensor CudaHeadGradients::hidden(const at::Tensor& index, int64_t tokens) const {
  if (!dx_.defined()) return {};
  at::Tensor dhidden = at::zeros({tokens, dx_.size(1)}, dx_.options());
  return dhidden.index_add_(0, index, dx_);
}

void check_cuda(int status) { C10_CUDA_CHECK(static_cast<cudaError_t>(status)); }

}  // namespace xrun
