// The CUDA form of xrun::linear_logprob, registered beside the CPU's: library GEMMs and one row
// kernel. The same three products as core/model/linear_logprob.cpp; operands stay in their own type,
// logits and softmax are fp32. Ids are not checked here, since that would wait for the device: packs
// are validated on the host, and a target outside the vocabulary gives NaN, which stops the run.

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>

#include "kernels/cuda/softmax_rows.h"

namespace xrun {

namespace {

constexpr int64_t kChunkRows = 4096;  // a chunk's GEMM reaches its full rate from 2048 rows up

using Forward = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using Backward = std::tuple<at::Tensor, at::Tensor>;

// [n, D] times [D, V] with fp32 sums, in fp32 whatever the operands are.
at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == at::kFloat ? at::mm(a, b) : at::mm(a, b, at::kFloat);
}

kernels::CudaSoftmaxRows arguments(const at::Tensor& z, const at::Tensor& target,
                                   const at::Tensor& logprob, const at::Tensor& lse, bool keep) {
  return {z.mutable_data_ptr<float>(), target.const_data_ptr<int64_t>(),
          logprob.defined() ? logprob.mutable_data_ptr<float>() : nullptr,
          lse.mutable_data_ptr<float>(), z.size(0), z.size(1), keep};
}

void check(int status) { C10_CUDA_CHECK(static_cast<cudaError_t>(status)); }

Forward forward_cuda(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& index,
                     const at::Tensor& target, int64_t head_mb) {
  const auto stream = at::cuda::getCurrentCUDAStream();
  const int64_t count = index.size(0), vocab = weight.size(0);
  TORCH_CHECK(weight.numel() > 0, "linear_logprob: weight is empty, wanted [V, D]");
  const int64_t head_bytes = std::clamp<int64_t>(head_mb, 0, int64_t{1} << 40) << 20;
  const int64_t kept_rows = std::min(count, head_bytes / (vocab * 4));
  const auto floats = hidden.options().dtype(at::kFloat);
  const at::Tensor ids = target.contiguous();
  const at::Tensor x = at::index_select(hidden, 0, index).to(weight.scalar_type());
  at::Tensor logprob = at::empty({count}, floats), lse = at::empty({count}, floats);
  at::Tensor kept = at::empty({kept_rows, vocab}, floats);
  for (int64_t begin = 0; begin < count;) {
    const bool keep = begin < kept_rows;
    const int64_t n = std::min(kChunkRows, (keep ? kept_rows : count) - begin);
    at::Tensor z = product(x.narrow(0, begin, n), weight.t());
    check(kernels::softmax_rows_cuda(
        arguments(z, ids.narrow(0, begin, n), logprob.narrow(0, begin, n),
                  lse.narrow(0, begin, n), keep),
        stream));
    if (keep) kept.narrow(0, begin, n).copy_(z);
    begin += n;
  }
  return {logprob, lse, x, kept};
}

Backward backward_cuda(const at::Tensor& grad, const at::Tensor& weight, const at::Tensor& index,
                       const at::Tensor& target, const at::Tensor& lse, const at::Tensor& x,
                       const at::Tensor& kept, int64_t tokens, bool want_hidden, bool want_weight) {
  const auto stream = at::cuda::getCurrentCUDAStream();
  const int64_t count = x.size(0), width = weight.size(1), kept_rows = kept.size(0);
  const auto floats = weight.options().dtype(at::kFloat);
  const at::Tensor a = grad.to(at::kFloat).neg().unsqueeze(1), ids = target.contiguous();
  at::Tensor dx, dweight;
  if (want_hidden) dx = at::empty({count, width}, floats);
  if (want_weight) dweight = at::zeros({weight.size(0), width}, floats);
  for (int64_t begin = 0; begin < count;) {
    const bool is_kept = begin < kept_rows;
    const int64_t n = std::min(kChunkRows, (is_kept ? kept_rows : count) - begin);
    at::Tensor p;
    if (is_kept) {
      p = kept.narrow(0, begin, n);
    } else {
      p = product(x.narrow(0, begin, n), weight.t());
      check(kernels::softmax_from_lse_cuda(
          arguments(p, ids.narrow(0, begin, n), at::Tensor(), lse.narrow(0, begin, n), true),
          stream));
    }
    p = p.to(weight.scalar_type());
    const at::Tensor coefficient = a.narrow(0, begin, n);
    if (want_hidden) dx.narrow(0, begin, n).copy_(product(p, weight).mul_(coefficient));
    if (want_weight) {
      const at::Tensor scaled = x.narrow(0, begin, n).mul(coefficient).to(weight.scalar_type());
      dweight.add_(product(p.t(), scaled));
    }
    begin += n;
  }
  at::Tensor dhidden;
  if (want_hidden) {
    dhidden = at::zeros({tokens, width}, floats);
    dhidden.index_add_(0, index, dx);
  }
  return {dhidden, dweight};
}

}  // namespace

TORCH_LIBRARY_IMPL(xrun, CUDA, m) {
  m.impl("linear_logprob_forward", forward_cuda);
  m.impl("linear_logprob_backward", backward_cuda);
}

}  // namespace xrun
