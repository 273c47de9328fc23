// xrun::linear_head on the CPU: logits of one block of rows at a time, and a row kernel on each
// block.

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>
#include <torch/library.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "core/base/error.h"
#include "core/model/ops/head_block.h"
#include "core/model/ops/linear_head.h"
#include "core/model/ops/linear_head_op.h"
#include "core/model/ops/scratch.h"

namespace xrun {

namespace {

at::Tensor dense_floats(const at::Tensor& x) { return x.to(at::kFloat).contiguous(); }

// The hidden rows that loss rows read. Neighbouring loss rows of equal index, such as the children
// of a token in a folded pack, share one hidden row and its logits.
struct RowsByHidden {
  std::vector<int64_t> first;  // [U+1], the first loss row of each hidden row; empty: one for each
  at::Tensor index;            // [U], the hidden rows

  // Returns the kernels' view of `first` from hidden row `begin` on; null: one loss row for each.
  const int64_t* from(int64_t begin) const { return first.empty() ? nullptr : &first[begin]; }
};

// `share` only if the kernels can share rows: for targets alone, at temperature 1.
RowsByHidden rows_by_hidden(const at::Tensor& index, bool share) {
  const int64_t* const row = index.const_data_ptr<int64_t>();
  std::vector<int64_t> first;
  for (int64_t r = 0; r < index.size(0); ++r) {
    if (r == 0 || row[r] != row[r - 1]) first.push_back(r);
  }
  if (!share || std::ssize(first) == index.size(0)) return {{}, index};
  const at::Tensor hidden = index.index_select(0, at::tensor(first, index.options()));
  first.push_back(index.size(0));
  return {std::move(first), hidden};
}

struct HeadRowOutputs {
  at::Tensor logprob, entropy, lse, top_logprob, top_id;
};

// Returns outputs for the kernels to fill; one that nobody asked for has size 0.
HeadRowOutputs make_outputs(const at::Tensor& target, int64_t hidden_rows, bool entropy,
                            int64_t top_k) {
  // logprob [R] or [R, N]; entropy [R] or [0]; lse [U]; top_logprob, top_id [R, k].
  const int64_t rows = target.size(0);
  const auto floats = target.options().dtype(at::kFloat);
  return {at::empty(target.sizes(), floats), at::empty({entropy ? rows : 0}, floats),
          at::empty({hidden_rows}, floats), at::empty({rows, top_k}, floats),
          at::empty({rows, top_k}, target.options())};
}

// The kernel's arguments for the rows [begin, begin + n), whose logits are z.
kernels::HeadRows head_rows(const HeadRowOutputs& out, const at::Tensor& ids, const float* z,
                            int64_t begin, int64_t n) {
  const int64_t targets = ids_per_row(ids), top = out.top_id.size(1);
  kernels::HeadRows rows{};
  rows.z = z;
  rows.rows = n;
  rows.target = ids.const_data_ptr<int64_t>() + begin * targets;
  rows.targets = targets;
  rows.logprob = out.logprob.mutable_data_ptr<float>() + begin * targets;
  rows.lse = out.lse.mutable_data_ptr<float>() + begin;
  if (out.entropy.size(0) > 0) rows.entropy = out.entropy.mutable_data_ptr<float>() + begin;
  rows.top = top;
  rows.top_logprob = out.top_logprob.mutable_data_ptr<float>() + begin * top;
  rows.top_id = out.top_id.mutable_data_ptr<int64_t>() + begin * top;
  return rows;
}

// Computes log-probabilities from the logits z [n, V] of the hidden rows from `begin` on. With
// `keep` it replaces the logits by softmax minus one-hot.
void softmax_block(const at::Tensor& z, int64_t begin, const RowsByHidden& shared,
                   const at::Tensor& target, const HeadRowOutputs& out, bool keep) {
  const int64_t width = z.size(1);
  // `first` counts loss rows from 0; without it a row's one target is beside it.
  const int64_t offset = shared.first.empty() ? begin : 0;
  float* const x = z.mutable_data_ptr<float>();
  const int64_t* const t = target.const_data_ptr<int64_t>() + offset;
  float* const l = out.logprob.mutable_data_ptr<float>() + offset;
  float* const s = out.lse.mutable_data_ptr<float>() + begin;
  // A row is a whole vocabulary: work enough for a thread.
  at::parallel_for(0, z.size(0), 1, [&](int64_t from, int64_t to) {
    const int64_t skip = shared.first.empty() ? from : 0;
    kernels::cpu_kernels().run(kernels::SoftmaxRows{x + from * width, shared.from(begin + from),
                                                    t + skip, l + skip, s + from, to - from, width,
                                                    keep});
  });
}

// Replaces logits that were computed again by softmax minus one-hot.
void recompute_softmax(const at::Tensor& z, int64_t begin, const RowsByHidden& shared,
                       const at::Tensor& target, const at::Tensor& lse) {
  const int64_t width = z.size(1), offset = shared.first.empty() ? begin : 0;
  float* const x = z.mutable_data_ptr<float>();
  const int64_t* const t = target.const_data_ptr<int64_t>() + offset;
  const float* const s = lse.const_data_ptr<float>() + begin;
  at::parallel_for(0, z.size(0), 1, [&](int64_t from, int64_t to) {
    const int64_t skip = shared.first.empty() ? from : 0;
    kernels::cpu_kernels().run(kernels::SoftmaxFromLse{x + from * width, shared.from(begin + from),
                                                       t + skip, s + from, to - from, width});
  });
}

// Order of the outputs: logprob, entropy, lse, top_logprob, top_id, then x and rows for the
// backward.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>
linear_head_forward_cpu(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& index,
                        const at::Tensor& target, double temperature, int64_t columns, bool entropy,
                        int64_t top_k, int64_t head_mb, bool lse) {
  const HeadInputs inputs{weight, index, target, columns};
  check_head_inputs(inputs, hidden);
  check_head_options(inputs, temperature, top_k);
  const int64_t vocab = weight.size(0), existing = columns > 0 ? columns : vocab;
  const at::Tensor ids = target.contiguous(), w = dense_floats(weight);
  // One target per row and nothing else: the softmax is written over the logits, and the backward
  // needs no second pass over [R, V].
  const bool alone = wants_targets_alone(weight, target, temperature, columns, entropy, top_k, lse);
  const RowsByHidden shared = rows_by_hidden(index.contiguous(), alone);
  const at::Tensor x = dense_floats(at::index_select(hidden, 0, shared.index));
  const HeadRowOutputs out = make_outputs(ids, x.size(0), entropy, top_k);
  // hidden [T, D], weight [V, D], x [U, D], saved_rows [S, V] with S <= U.
  const int64_t saved_count = head_rows_within(head_mb, x.size(0), vocab);
  at::Tensor saved_rows = at::empty({0, vocab}, x.options());
  if (saved_count > 0) saved_rows = scratch_floats(saved_count * vocab).view({saved_count, vocab});
  each_logit_block(x, w, saved_rows, 0, [&](const LogitBlock& block) {
    if (alone) return softmax_block(block.z, block.begin, shared, ids, out, block.saved);
    const float* const z = block.z.const_data_ptr<float>();
    at::parallel_for(0, block.z.size(0), 1, [&](int64_t from, int64_t to) {
      kernels::HeadRows rows = head_rows(out, ids, z + from * vocab, block.begin + from, to - from);
      rows.width = vocab;
      rows.columns = existing;
      rows.scale = static_cast<float>(1 / temperature);
      kernels::cpu_kernels().run(rows);
    });
  });
  return {out.logprob, out.entropy, out.lse, out.top_logprob, out.top_id, x, saved_rows};
}

// The gradients of the rows' outputs, which turn logits into dz. All tensors are contiguous.
struct HeadRowGradients {
  at::Tensor grad, ids, grad_lse, lse, grad_entropy, entropy;
  int64_t columns;
  float scale;

  // Writes dz [n, V] for the logits z [n, V] of the rows from `begin` on; dz may be z.
  void apply(const at::Tensor& z, const at::Tensor& dz, int64_t begin) const {
    const int64_t vocab = z.size(1), per_row = ids_per_row(ids);
    const float* const logits = z.const_data_ptr<float>();
    float* const out = dz.mutable_data_ptr<float>();
    at::parallel_for(0, z.size(0), 1, [&](int64_t from, int64_t to) {
      const int64_t row = begin + from;
      kernels::HeadRowsBackward rows{};
      rows.z = logits + from * vocab;
      rows.dz = out + from * vocab;
      rows.rows = to - from;
      rows.width = vocab;
      rows.columns = columns;
      rows.scale = scale;
      rows.id = ids.const_data_ptr<int64_t>() + row * per_row;
      rows.grad = grad.const_data_ptr<float>() + row * per_row;
      rows.ids = per_row;
      rows.lse = lse.const_data_ptr<float>() + row;
      rows.grad_lse = grad_lse.const_data_ptr<float>() + row;
      if (grad_entropy.size(0) > 0) {
        rows.entropy = entropy.const_data_ptr<float>() + row;
        rows.grad_entropy = grad_entropy.const_data_ptr<float>() + row;
      }
      kernels::cpu_kernels().run(rows);
    });
  }
};

// An entropy without a gradient comes as [0].
void check_gradients(const at::Tensor& grad_lse, const at::Tensor& grad_entropy,
                     const at::Tensor& entropy, int64_t rows) {
  check_floating("linear_head", "grad_lse", grad_lse);
  check_sizes("linear_head", "grad_lse", grad_lse, {rows});
  check_floating("linear_head", "grad_entropy", grad_entropy);
  check_type("linear_head", "entropy", entropy, at::kFloat);
  if (grad_entropy.dim() == 1 && grad_entropy.size(0) == 0) return;  // none
  check_sizes("linear_head", "grad_entropy", grad_entropy, {rows});
  check_sizes("linear_head", "entropy", entropy, {rows});
}

// Returns the negated sum of the gradients of each hidden row, [U].
at::Tensor negative_sums(const at::Tensor& grad, const RowsByHidden& shared) {
  if (shared.first.empty()) return grad.neg();
  const at::Tensor sums = at::empty(shared.index.sizes(), grad.options());
  const float* const a = grad.const_data_ptr<float>();
  float* const out = sums.mutable_data_ptr<float>();
  for (int64_t h = 0; h < sums.size(0); ++h) {
    double sum = 0;
    for (auto e = shared.first[h]; e < shared.first[h + 1]; ++e) sum += a[e];
    out[h] = static_cast<float>(-sum);
  }
  return sums;
}

// The backward for targets only. A row with one target has dz = -a (p - e_y); the factor -a
// multiplies the small operands, dx and x, which saves a pass over [R, V]. With several targets and
// G = sum a, dz = -G (p - e_y1) + (a_1 - G) e_y1 + sum_(i > 1) a_i e_yi: the rest are a few rows.
void add_softmax_gradients(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& w,
                           const RowsByHidden& shared, const at::Tensor& target,
                           const at::Tensor& lse, const at::Tensor& saved_rows,
                           HeadGradients& gradients) {
  const at::Tensor a = dense_floats(grad), factor = negative_sums(a, shared);
  // Saved rows are p - e_y already.
  if (saved_rows.size(0) > 0) gradients.add(saved_rows, 0, factor);
  each_logit_block(x, w, {}, saved_rows.size(0), [&](const LogitBlock& block) {
    recompute_softmax(block.z, block.begin, shared, target, lse);
    gradients.add(block.z, block.begin, factor);
  });
  if (shared.first.empty()) return;
  const float* const value = a.const_data_ptr<float>();
  const float* const negative = factor.const_data_ptr<float>();
  const int64_t* const id = target.const_data_ptr<int64_t>();
  std::vector<HeadEntry> rest;
  for (int64_t h = 0; h < x.size(0); ++h) {
    const int64_t begin = shared.first[h], end = shared.first[h + 1];
    if (end - begin == 1) continue;
    rest.push_back({h, id[begin], value[begin] + negative[h]});
    for (int64_t e = begin + 1; e < end; ++e) rest.push_back({h, id[e], value[e]});
  }
  gradients.add_entries(rest);
}

// dz of a block is written beside the saved logits, not over them: saved rows and recomputed rows
// go through the same operations, and so have the same bits.
void add_row_gradients(const HeadRowGradients& rows, const at::Tensor& x, const at::Tensor& w,
                       const at::Tensor& saved_rows, HeadGradients& gradients) {
  const int64_t vocab = w.size(0), saved_count = saved_rows.size(0);
  at::Tensor spare;
  for (int64_t begin = 0; begin < saved_count; begin += kHeadBlockRows) {
    const int64_t n = std::min(kHeadBlockRows, saved_count - begin);
    if (!spare.defined()) spare = scratch_floats(n * vocab);
    const at::Tensor dz = spare.narrow(0, 0, n * vocab).view({n, vocab});
    rows.apply(saved_rows.narrow(0, begin, n), dz, begin);
    gradients.add(dz, begin);
  }
  // The buffer is free before the recomputed blocks take one of the same size.
  spare.reset();
  each_logit_block(x, w, {}, saved_count, [&](const LogitBlock& block) {
    rows.apply(block.z, block.z, block.begin);
    gradients.add(block.z, block.begin);
  });
}

std::tuple<at::Tensor, at::Tensor> linear_head_backward_cpu(
    const at::Tensor& grad, const at::Tensor& grad_lse, const at::Tensor& grad_entropy,
    const at::Tensor& weight, const at::Tensor& index, const at::Tensor& ids_any,
    const at::Tensor& lse_any, const at::Tensor& entropy, const at::Tensor& x_any,
    const at::Tensor& saved_rows_any, double temperature, int64_t columns, int64_t tokens,
    bool want_hidden, bool want_weight, bool alone) {
  const HeadInputs inputs{weight, index, ids_any, columns};
  check_head_saved(inputs, {grad, lse_any, x_any, saved_rows_any}, tokens);
  check_head_options(inputs, temperature);
  const at::Tensor x = x_any.contiguous(), saved_rows = saved_rows_any.contiguous(),
                   w = dense_floats(weight);
  const at::Tensor ids = ids_any.contiguous(), lse = lse_any.contiguous();
  const RowsByHidden shared = rows_by_hidden(index.contiguous(), alone);
  XRUN_CHECK(x.size(0) == shared.index.size(0), "linear_head: x has {} rows, wanted {}", x.size(0),
             shared.index.size(0));
  HeadGradients gradients(x, w, want_hidden, want_weight);
  if (alone) {
    check_sizes("linear_head", "target", ids, {index.size(0)});
    add_softmax_gradients(grad, x, w, shared, ids, lse, saved_rows, gradients);
  } else {
    check_gradients(grad_lse, grad_entropy, entropy, index.size(0));
    add_row_gradients({dense_floats(grad), ids, dense_floats(grad_lse), lse,
                       dense_floats(grad_entropy), entropy.contiguous(),
                       columns > 0 ? columns : w.size(0), static_cast<float>(1 / temperature)},
                      x, w, saved_rows, gradients);
  }
  return {gradients.hidden(shared.index, tokens), gradients.weight()};
}

static_assert(std::is_same_v<decltype(linear_head_forward_cpu), LinearHeadForward>);
static_assert(std::is_same_v<decltype(linear_head_backward_cpu), LinearHeadBackward>);

}  // namespace

// Mirrors the forward and the backward above; a change there belongs here too.
HeadMemory head_memory(const HeadSizes& sizes) {
  const int64_t rows = sizes.rows;
  const auto wide = static_cast<double>(sizes.width), columns = static_cast<double>(sizes.vocab);
  const int64_t saved = head_rows_within(sizes.head_mb, rows, sizes.vocab);
  const int64_t spare =
      std::max(std::min(rows - saved, kHeadBlockRows), std::min(sizes.other_rows, kHeadBlockRows));
  HeadMemory memory;
  memory.scratch = scratch_bytes(static_cast<double>(saved) * columns) +
                   scratch_bytes(static_cast<double>(spare) * columns);
  memory.saved = 4 * static_cast<double>(rows) * wide;
  memory.weight = 4 * columns * wide;
  // dx, x times its row's factor, and dhidden; below fp32 the weight as well, upcast
  memory.backward = 2 * memory.saved + 4 * static_cast<double>(sizes.tokens) * wide;
  if (sizes.dtype != at::kFloat) memory.backward += memory.weight;
  return memory;
}

TORCH_LIBRARY_IMPL(xrun, CPU, m) {
  m.impl("linear_head_forward", linear_head_forward_cpu);
  m.impl("linear_head_backward", linear_head_backward_cpu);
}

}  // namespace xrun
