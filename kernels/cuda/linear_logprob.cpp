// The CUDA form of xrun::linear_logprob, registered beside the CPU's: library GEMMs and one row
// kernel. The same three products as core/model/ops/linear_logprob.cpp; operands stay in their own
// type, logits and softmax are fp32. Ids are not checked here, since that would wait for the
// device: packs are validated on the host, and a target outside the vocabulary gives NaN, which
// stops the run.

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>

#include "kernels/cuda/head_chunk.h"
#include "kernels/cuda/softmax_rows.h"

namespace xrun {

namespace {

using Forward = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using Backward = std::tuple<at::Tensor, at::Tensor>;

kernels::CudaSoftmaxRows arguments(const at::Tensor& z, const at::Tensor& target,
                                   const at::Tensor& logprob, const at::Tensor& lse, bool keep) {
  return {z.mutable_data_ptr<float>(),
          target.const_data_ptr<int64_t>(),
          logprob.defined() ? logprob.mutable_data_ptr<float>() : nullptr,
          lse.mutable_data_ptr<float>(),
          z.size(0),
          z.size(1),
          keep};
}

Forward forward_cuda(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& index,
                     const at::Tensor& target, int64_t head_mb) {
  const auto stream = at::cuda::getCurrentCUDAStream();
  const int64_t count = index.size(0), vocab = weight.size(0);
  TORCH_CHECK(weight.numel() > 0, "linear_logprob: weight is empty, wanted [V, D]");
  const int64_t kept_rows = cuda_rows_within(head_mb, count, vocab);
  const auto floats = hidden.options().dtype(at::kFloat);
  const at::Tensor ids = target.contiguous();
  const at::Tensor x = at::index_select(hidden, 0, index).to(weight.scalar_type());
  at::Tensor logprob = at::empty({count}, floats), lse = at::empty({count}, floats);
  at::Tensor kept = at::empty({kept_rows, vocab}, floats);
  for (int64_t begin = 0; begin < count;) {
    const bool keep = begin < kept_rows;
    const int64_t n = std::min(kCudaHeadRows, (keep ? kept_rows : count) - begin);
    at::Tensor z = cuda_product(x.narrow(0, begin, n), weight.t());
    check_cuda(kernels::softmax_rows_cuda(
        arguments(z, ids.narrow(0, begin, n), logprob.narrow(0, begin, n), lse.narrow(0, begin, n),
                  keep),
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
  const int64_t count = x.size(0), kept_rows = kept.size(0);
  const at::Tensor a = grad.to(at::kFloat).neg().unsqueeze(1), ids = target.contiguous();
  CudaHeadGradients gradients(x, weight, want_hidden, want_weight);
  for (int64_t begin = 0; begin < count;) {
    const bool is_kept = begin < kept_rows;
    const int64_t n = std::min(kCudaHeadRows, (is_kept ? kept_rows : count) - begin);
    at::Tensor p;
    if (is_kept) {
      p = kept.narrow(0, begin, n);
    } else {
      p = cuda_product(x.narrow(0, begin, n), weight.t());
      check_cuda(kernels::softmax_from_lse_cuda(
          arguments(p, ids.narrow(0, begin, n), at::Tensor(), lse.narrow(0, begin, n), true),
          stream));
    }
    gradients.add(p, begin, a);
    begin += n;
  }
  return {gradients.hidden(index, tokens), gradients.weight()};
}

}  // namespace

TORCH_LIBRARY_IMPL(xrun, CUDA, m) {
  m.impl("linear_logprob_forward", forward_cuda);
  m.impl("linear_logprob_backward", backward_cuda);
}

}  // namespace xrun
