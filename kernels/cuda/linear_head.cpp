// The CUDA form of xrun::linear_head: library GEMMs, one row kernel, and a stable sort for the top
// k (topk itself breaks ties as it likes). As core/model/ops/linear_head_cpu.cpp, rows keep their
// logits. Sizes and options are checked before, on every device (core/model/ops/linear_head.cpp); ids
// are not, since that would wait for the device: packs are validated on the host, and a target
// outside the vocabulary gives NaN, which stops the run.

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/sort.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>

#include "kernels/cuda/head_chunk.h"
#include "kernels/cuda/head_rows.h"

namespace xrun {

namespace {

// A sort takes three times the memory of its rows, so it goes by fewer than the products, whose
// chunks are those of the backward: rows that are computed again there have the same bits.
constexpr int64_t kSortedRows = 512;

using Forward =
    std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using Backward = std::tuple<at::Tensor, at::Tensor>;

int64_t ids_a_row(const at::Tensor& ids) { return ids.dim() == 2 ? ids.size(1) : 1; }

int64_t known_columns(const at::Tensor& weight, int64_t columns) {
  return columns > 0 ? columns : weight.size(0);
}

struct Outputs {
  at::Tensor logprob, entropy, lse, top_logprob, top_id;

  // Fills the rows [begin, begin + n), whose logits are z [n, V].
  void fill(const at::Tensor& z, int64_t begin, const at::Tensor& ids, int64_t columns,
            float scale) const {
    const int64_t targets = ids_a_row(ids), top = top_id.size(1), n = z.size(0);
    kernels::CudaHeadRows rows{};
    rows.z = z.const_data_ptr<float>();
    rows.rows = n;
    rows.width = z.size(1);
    rows.columns = columns;
    rows.scale = scale;
    rows.target = ids.const_data_ptr<int64_t>() + begin * targets;
    rows.targets = targets;
    rows.logprob = logprob.mutable_data_ptr<float>() + begin * targets;
    rows.lse = lse.mutable_data_ptr<float>() + begin;
    if (entropy.size(0) > 0) rows.entropy = entropy.mutable_data_ptr<float>() + begin;
    check_cuda(kernels::head_rows_cuda(rows, at::cuda::getCurrentCUDAStream()));
    if (top == 0) return;
    for (int64_t row = 0; row < n; row += kSortedRows) {
      fill_top(z.narrow(0, row, std::min(kSortedRows, n - row)).narrow(1, 0, columns), begin + row,
               scale);
    }
  }

  // The top k of the rows from `begin` on, whose logits are z [n, columns].
  void fill_top(const at::Tensor& z, int64_t begin, float scale) const {
    const int64_t top = top_id.size(1), n = z.size(0);
    const auto [value, id] = at::sort(z, /*stable=*/true, 1, /*descending=*/true);
    top_id.narrow(0, begin, n).copy_(id.narrow(1, 0, top));
    top_logprob.narrow(0, begin, n)
        .copy_(value.narrow(1, 0, top).mul(scale).sub(lse.narrow(0, begin, n).unsqueeze(1)));
  }
};

Forward forward_cuda(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& index,
                     const at::Tensor& target, double temperature, int64_t columns, bool entropy,
                     int64_t top_k, int64_t head_mb) {
  const int64_t known = known_columns(weight, columns);
  const int64_t count = index.size(0), vocab = weight.size(0);
  const auto floats = hidden.options().dtype(at::kFloat);
  const at::Tensor ids = target.contiguous();
  const at::Tensor x = at::index_select(hidden, 0, index).to(weight.scalar_type());
  const Outputs out{at::empty(ids.sizes(), floats), at::empty({entropy ? count : 0}, floats),
                    at::empty({count}, floats), at::empty({count, top_k}, floats),
                    at::empty({count, top_k}, ids.options())};
  const int64_t kept_rows = cuda_rows_within(head_mb, count, vocab);
  const at::Tensor kept = at::empty({kept_rows, vocab}, floats);
  for (int64_t begin = 0; begin < count;) {
    const bool keep = begin < kept_rows;
    const int64_t n = std::min(kCudaHeadRows, (keep ? kept_rows : count) - begin);
    const at::Tensor z = cuda_product(x.narrow(0, begin, n), weight.t());
    out.fill(z, begin, ids, known, static_cast<float>(1 / temperature));
    if (keep) kept.narrow(0, begin, n).copy_(z);
    begin += n;
  }
  return {out.logprob, out.entropy, out.lse, out.top_logprob, out.top_id, x, kept};
}

Backward backward_cuda(const at::Tensor& grad_any, const at::Tensor& grad_lse_any,
                       const at::Tensor& grad_entropy_any, const at::Tensor& weight,
                       const at::Tensor& index, const at::Tensor& ids_any, const at::Tensor& lse,
                       const at::Tensor& entropy, const at::Tensor& x, const at::Tensor& kept,
                       double temperature, int64_t columns, int64_t tokens, bool want_hidden,
                       bool want_weight) {
  const int64_t known = known_columns(weight, columns);
  const int64_t count = x.size(0), kept_rows = kept.size(0), a_row = ids_a_row(ids_any);
  const at::Tensor grad = grad_any.to(at::kFloat).contiguous(), ids = ids_any.contiguous();
  const at::Tensor grad_lse = grad_lse_any.to(at::kFloat).contiguous();
  const at::Tensor grad_entropy = grad_entropy_any.to(at::kFloat).contiguous();
  CudaHeadGradients gradients(x, weight, want_hidden, want_weight);
  for (int64_t begin = 0; begin < count;) {
    const bool is_kept = begin < kept_rows;
    const int64_t n = std::min(kCudaHeadRows, (is_kept ? kept_rows : count) - begin);
    const at::Tensor z =
        is_kept ? kept.narrow(0, begin, n) : cuda_product(x.narrow(0, begin, n), weight.t());
    const at::Tensor dz = is_kept ? at::empty_like(z) : z;
    kernels::CudaHeadRowsBackward rows{};
    rows.z = z.const_data_ptr<float>();
    rows.dz = dz.mutable_data_ptr<float>();
    rows.rows = n;
    rows.width = weight.size(0);
    rows.columns = known;
    rows.scale = static_cast<float>(1 / temperature);
    rows.id = ids.const_data_ptr<int64_t>() + begin * a_row;
    rows.grad = grad.const_data_ptr<float>() + begin * a_row;
    rows.ids = a_row;
    rows.lse = lse.const_data_ptr<float>() + begin;
    rows.grad_lse = grad_lse.const_data_ptr<float>() + begin;
    if (grad_entropy.size(0) > 0) {
      rows.entropy = entropy.const_data_ptr<float>() + begin;
      rows.grad_entropy = grad_entropy.const_data_ptr<float>() + begin;
    }
    check_cuda(kernels::head_rows_backward_cuda(rows, at::cuda::getCurrentCUDAStream()));
    gradients.add(dz, begin);
    begin += n;
  }
  return {gradients.hidden(index, tokens), gradients.weight()};
}

}  // namespace

TORCH_LIBRARY_IMPL(xrun, CUDA, m) {
  m.impl("linear_head_forward", forward_cuda);
  m.impl("linear_head_backward", backward_cuda);
}

}  // namespace xrun
