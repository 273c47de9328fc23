// The CUDA form of xrun::linear_head: library GEMMs, row kernels, and a stable sort for the top k
// (topk breaks ties arbitrarily). Operands stay in their own type; logits, softmax and sums are
// fp32. linear_head.cpp has checked sizes and options. Nothing checks ids, since that would wait
// for the device: packs are validated on the host, and a target outside the vocabulary gives NaN,
// which stops the run.

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>
#include <type_traits>

#include "core/model/ops/linear_head_op.h"
#include "kernels/cuda/head_rows.h"
#include "kernels/cuda/softmax_rows.h"

namespace xrun {

namespace {

constexpr int64_t kBlockRows = 4096;  // a block's GEMM reaches its full rate from 2048 rows up

// A sort needs three times the memory of its rows, so it takes fewer rows at a time than a product.
// (Products keep kBlockRows, since rows that the backward recomputes must have the same bits.)
constexpr int64_t kSortedRows = 512;

using HeadForward =
    std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

void check_cuda(int status) { C10_CUDA_CHECK(static_cast<cudaError_t>(status)); }

// Returns how many of `rows` rows of `vocab` fp32 numbers fit in head_mb MiB: all, or a multiple of
// kBlockRows, so that blocks are the same however many rows are saved.
int64_t rows_within(int64_t head_mb, int64_t rows, int64_t vocab) {
  const int64_t bytes = std::clamp<int64_t>(head_mb, 0, int64_t{1} << 40) << 20;
  const int64_t fit = bytes / (vocab * 4);
  return fit >= rows ? rows : fit / kBlockRows * kBlockRows;
}

// Returns a [n, K] times b [K, m] in fp32, with fp32 sums, for operands of any one type.
at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == at::kFloat ? at::mm(a, b) : at::mm(a, b, at::kFloat);
}

// The gradients of z = x w^T, summed over blocks of dz.
class BlockGradients {
 public:
  // x [R, D] and weight [V, D] of one type.
  BlockGradients(const at::Tensor& x, const at::Tensor& weight, bool want_hidden, bool want_weight);

  // Adds the rows [begin, begin + n), whose gradient is dz fp32 [n, V]. With `scale` fp32 [R, 1]
  // the gradient of row r is scale[r] times its row of dz.
  void add(const at::Tensor& dz, int64_t begin, const at::Tensor& scale = {});

  // Returns the gradient of the hidden states, fp32 [T, D]: a state that `index` [R] names several
  // times gets the sum of its rows. Undefined if not wanted.
  at::Tensor hidden(const at::Tensor& index, int64_t tokens) const;
  // Returns the gradient of the weight, fp32 [V, D]; undefined if not wanted.
  at::Tensor weight() const { return dweight_; }

 private:
  at::Tensor x_, weight_, dx_, dweight_;
};

BlockGradients::BlockGradients(const at::Tensor& x, const at::Tensor& weight, bool want_hidden,
                               bool want_weight)
    : x_(x), weight_(weight) {
  const auto floats = weight.options().dtype(at::kFloat);
  if (want_hidden) dx_ = at::empty(x.sizes(), floats);
  if (want_weight) dweight_ = at::zeros(weight.sizes(), floats);
}

void BlockGradients::add(const at::Tensor& dz, int64_t begin, const at::Tensor& scale) {
  const int64_t n = dz.size(0);
  // The GEMM takes operands of one type; its sums are fp32.
  const at::Tensor p = dz.to(weight_.scalar_type());
  at::Tensor factor;
  if (scale.defined()) factor = scale.narrow(0, begin, n);
  if (dx_.defined()) {
    at::Tensor dx = product(p, weight_);
    if (factor.defined()) dx.mul_(factor);
    dx_.narrow(0, begin, n).copy_(dx);
  }
  if (dweight_.defined()) {
    at::Tensor x = x_.narrow(0, begin, n);
    if (factor.defined()) x = x.mul(factor).to(weight_.scalar_type());
    dweight_.add_(product(p.t(), x));
  }
}

at::Tensor BlockGradients::hidden(const at::Tensor& index, int64_t tokens) const {
  if (!dx_.defined()) return {};
  at::Tensor dhidden = at::zeros({tokens, dx_.size(1)}, dx_.options());
  return dhidden.index_add_(0, index, dx_);
}

// The outputs of the whole call, filled block by block.
struct RowOutputs {
  at::Tensor logprob, entropy, lse, top_logprob, top_id;

  // Fills the rows [begin, begin + n), whose logits are z [n, V].
  void fill(const at::Tensor& z, int64_t begin, const at::Tensor& ids, int64_t columns,
            float scale) const {
    const int64_t targets = ids_per_row(ids), top = top_id.size(1), n = z.size(0);
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

  // Fills the top k of the rows [begin, begin + n), whose logits are z [n, columns]. z is sorted
  // before it is scaled, since a positive scale keeps the order.
  void fill_top(const at::Tensor& z, int64_t begin, float scale) const {
    const int64_t top = top_id.size(1), n = z.size(0);
    const auto [value, id] = at::sort(z, /*stable=*/true, 1, /*descending=*/true);
    top_id.narrow(0, begin, n).copy_(id.narrow(1, 0, top));
    top_logprob.narrow(0, begin, n)
        .copy_(value.narrow(1, 0, top).mul(scale).sub(lse.narrow(0, begin, n).unsqueeze(1)));
  }
};

// Calls f(begin, n, is_saved) for the blocks of `count` rows. The first saved_count rows are saved;
// a block has only saved rows or none.
template <class F>
void each_block(int64_t count, int64_t saved_count, F f) {
  for (int64_t begin = 0; begin < count;) {
    const bool is_saved = begin < saved_count;
    const int64_t n = std::min(kBlockRows, (is_saved ? saved_count : count) - begin);
    f(begin, n, is_saved);
    begin += n;
  }
}

kernels::CudaSoftmaxRows softmax_rows(const at::Tensor& z, const at::Tensor& target,
                                      const at::Tensor& logprob, const at::Tensor& lse, bool keep) {
  return {z.mutable_data_ptr<float>(),
          target.const_data_ptr<int64_t>(),
          logprob.defined() ? logprob.mutable_data_ptr<float>() : nullptr,
          lse.mutable_data_ptr<float>(),
          z.size(0),
          z.size(1),
          keep};
}

// Returns the outputs of linear_head_forward_cpu.
HeadForward linear_head_forward_cuda(const at::Tensor& hidden, const at::Tensor& weight,
                                     const at::Tensor& index, const at::Tensor& target,
                                     double temperature, int64_t columns, bool entropy,
                                     int64_t top_k, int64_t head_mb, bool lse) {
  const auto stream = at::cuda::getCurrentCUDAStream();
  const int64_t count = index.size(0), vocab = weight.size(0);
  const int64_t existing = columns > 0 ? columns : vocab;
  const auto floats = hidden.options().dtype(at::kFloat);
  const at::Tensor ids = target.contiguous();
  const at::Tensor x = at::index_select(hidden, 0, index).to(weight.scalar_type());
  const RowOutputs out{at::empty(ids.sizes(), floats), at::empty({entropy ? count : 0}, floats),
                       at::empty({count}, floats), at::empty({count, top_k}, floats),
                       at::empty({count, top_k}, ids.options())};
  const int64_t saved_count = rows_within(head_mb, count, vocab);
  const at::Tensor saved_rows = at::empty({saved_count, vocab}, floats);
  const bool alone = wants_targets_alone(weight, target, temperature, columns, entropy, top_k, lse);
  each_block(count, saved_count, [&](int64_t begin, int64_t n, bool keep) {
    // z [n, V] fp32.
    const at::Tensor z = product(x.narrow(0, begin, n), weight.t());
    if (alone) {
      check_cuda(kernels::softmax_rows_cuda(
          softmax_rows(z, ids.narrow(0, begin, n), out.logprob.narrow(0, begin, n),
                       out.lse.narrow(0, begin, n), keep),
          stream));
    } else {
      out.fill(z, begin, ids, existing, static_cast<float>(1 / temperature));
    }
    // z has logits, or softmax minus one-hot if softmax_rows_cuda overwrote them. It is copied,
    // since the next block reuses its memory.
    if (keep) saved_rows.narrow(0, begin, n).copy_(z);
  });
  return {out.logprob, out.entropy, out.lse, out.top_logprob, out.top_id, x, saved_rows};
}

// With a the gradient of the log-prob: dz = -a (p - e_y). Saved and recomputed rows hold p - e_y,
// so the factor -a goes into the operands of width D, which are smaller.
void add_softmax_gradients(const at::Tensor& grad, const at::Tensor& weight,
                           const at::Tensor& target, const at::Tensor& lse, const at::Tensor& x,
                           const at::Tensor& saved_rows, BlockGradients& gradients) {
  const at::Tensor factor = grad.to(at::kFloat).neg().unsqueeze(1), ids = target.contiguous();
  each_block(x.size(0), saved_rows.size(0), [&](int64_t begin, int64_t n, bool is_saved) {
    at::Tensor p;
    if (is_saved) {
      p = saved_rows.narrow(0, begin, n);
    } else {
      p = product(x.narrow(0, begin, n), weight.t());
      check_cuda(kernels::softmax_from_lse_cuda(
          softmax_rows(p, ids.narrow(0, begin, n), at::Tensor(), lse.narrow(0, begin, n), true),
          at::cuda::getCurrentCUDAStream()));
    }
    gradients.add(p, begin, factor);
  });
}

std::tuple<at::Tensor, at::Tensor> linear_head_backward_cuda(
    const at::Tensor& grad_any, const at::Tensor& grad_lse_any, const at::Tensor& grad_entropy_any,
    const at::Tensor& weight, const at::Tensor& index, const at::Tensor& ids_any,
    const at::Tensor& lse, const at::Tensor& entropy, const at::Tensor& x,
    const at::Tensor& saved_rows, double temperature, int64_t columns, int64_t tokens,
    bool want_hidden, bool want_weight, bool alone) {
  BlockGradients gradients(x, weight, want_hidden, want_weight);
  if (alone) {
    add_softmax_gradients(grad_any, weight, ids_any, lse, x, saved_rows, gradients);
    return {gradients.hidden(index, tokens), gradients.weight()};
  }
  const int64_t per_row = ids_per_row(ids_any);
  const at::Tensor grad = grad_any.to(at::kFloat).contiguous(), ids = ids_any.contiguous();
  const at::Tensor grad_lse = grad_lse_any.to(at::kFloat).contiguous();
  const at::Tensor grad_entropy = grad_entropy_any.to(at::kFloat).contiguous();
  each_block(x.size(0), saved_rows.size(0), [&](int64_t begin, int64_t n, bool is_saved) {
    const at::Tensor z =
        is_saved ? saved_rows.narrow(0, begin, n) : product(x.narrow(0, begin, n), weight.t());
    // Saved logits must survive: a second backward of the same graph would read them.
    const at::Tensor dz = is_saved ? at::empty_like(z) : z;
    kernels::CudaHeadRowsBackward rows{};
    rows.z = z.const_data_ptr<float>();
    rows.dz = dz.mutable_data_ptr<float>();
    rows.rows = n;
    rows.width = weight.size(0);
    rows.columns = columns > 0 ? columns : weight.size(0);
    rows.scale = static_cast<float>(1 / temperature);
    rows.id = ids.const_data_ptr<int64_t>() + begin * per_row;
    rows.grad = grad.const_data_ptr<float>() + begin * per_row;
    rows.ids = per_row;
    rows.lse = lse.const_data_ptr<float>() + begin;
    rows.grad_lse = grad_lse.const_data_ptr<float>() + begin;
    if (grad_entropy.size(0) > 0) {
      rows.entropy = entropy.const_data_ptr<float>() + begin;
      rows.grad_entropy = grad_entropy.const_data_ptr<float>() + begin;
    }
    check_cuda(kernels::head_rows_backward_cuda(rows, at::cuda::getCurrentCUDAStream()));
    gradients.add(dz, begin);
  });
  return {gradients.hidden(index, tokens), gradients.weight()};
}

static_assert(std::is_same_v<decltype(linear_head_forward_cuda), LinearHeadForward>);
static_assert(std::is_same_v<decltype(linear_head_backward_cuda), LinearHeadBackward>);

// Returns the logits of the head's forward, so that a sampled token has the log-prob that the head
// gives it.
at::Tensor head_logits_cuda(const at::Tensor& hidden, const at::Tensor& weight) {
  check_head_logits(hidden, weight);
  return product(hidden, weight.t());
}

}  // namespace

TORCH_LIBRARY_IMPL(xrun, CUDA, m) {
  m.impl("head_logits", head_logits_cuda);
  m.impl("linear_head_forward", linear_head_forward_cuda);
  m.impl("linear_head_backward", linear_head_backward_cuda);
}

}  // namespace xrun
