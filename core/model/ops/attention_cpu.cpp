// xrun::varlen_attention on the CPU: kernels/cpu/tree_attention.h for fp32 and bf16; fp16 is
// computed in fp32; fp64 takes the composed form. The items of work depend only on the shape. A
// thread that becomes free takes the next item; no result depends on the threads' number or order.

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <functional>

#include "core/model/ops/attention_op.h"
#include "core/model/ops/scratch.h"
#include "kernels/cpu/tree_attention.h"

namespace xrun {

namespace {

using OutputAndLse = std::tuple<at::Tensor, at::Tensor>;
using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// The result refers to `paths`, which must outlive the call.
kernels::AttentionNodes kernel_nodes(const LayoutPaths& paths, int64_t window) {
  return {paths.cu_seqlens.data(), paths.parent.data(), paths.position.data(),
          paths.end.data(),        paths.nodes(),       window};
}

// The operands of a kernel, contiguous. Tensors of held keys are undefined if there are none.
struct Operands {
  at::Tensor q, k, v;
  HeldKeys held;

  Operands(const at::Tensor& q_any, const at::Tensor& k_any, const at::Tensor& v_any,
           const HeldKeys& held_any = {})
      : q(q_any.contiguous()), k(k_any.contiguous()), v(v_any.contiguous()) {
    if (held_any.k.defined()) held = {held_any.k.contiguous(), held_any.v.contiguous()};
  }
  int64_t held_rows() const { return held.k.defined() ? held.k.size(0) : 0; }
  kernels::AttentionSizes sizes(double scale) const {
    return {q.size(0), q.size(1), k.size(1), q.size(2), static_cast<float>(scale), held_rows()};
  }
};

template <class T>
const T* held_data(const at::Tensor& x) {
  return x.defined() ? kernel_data<T>(x) : nullptr;
}

// Calls f(item, scratch) for items 0 to count - 1, each on the next free thread.
void each_item(int64_t count, int64_t scratch_size, const std::function<void(int64_t, float*)>& f) {
  std::atomic<int64_t> next = 0;
  // One range per thread, whose loop takes items from the shared counter.
  const int64_t threads = std::min<int64_t>(at::get_num_threads(), count);
  at::parallel_for(0, threads, 1, [&](int64_t from, int64_t to) {
    // Scratch of the thread, taken once for all its items.
    const at::Tensor scratch = scratch_floats(scratch_size);
    for (; from < to; ++from) {
      for (int64_t item = next++; item < count; item = next++) {
        f(item, scratch.mutable_data_ptr<float>());
      }
    }
  });
}

OutputAndLse kernel_forward(const Operands& x, const LayoutPaths& paths, double scale,
                            int64_t window) {
  const at::Tensor out = at::empty_like(x.q);
  // [H, T]
  const at::Tensor lse = at::empty({x.q.size(1), x.q.size(0)}, at::kFloat);
  const kernels::AttentionSizes sizes = x.sizes(scale);
  const int64_t heads = sizes.heads / sizes.kv_heads, slice = kernels::query_block(heads);
  const int64_t slices = (sizes.rows + slice - 1) / slice;
  with_kernel_type(x.q, [&](auto type_tag) {
    using T = decltype(type_tag);
    const auto attend = [&](int64_t item, float* scratch) {
      // The last slices of a sequence go first, since they see the most keys.
      const int64_t row = (slices - 1 - item / sizes.kv_heads) * slice;
      kernels::cpu_kernels().run(
          kernels::PathAttention<T>{.q = kernel_data<T>(x.q),
                                    .k = kernel_data<T>(x.k),
                                    .v = kernel_data<T>(x.v),
                                    .out = kernel_data<T>(out),
                                    .lse = kernel_data<float>(lse),
                                    .scratch = scratch,
                                    .nodes = kernel_nodes(paths, window),
                                    .sizes = sizes,
                                    .first = sizes.held + row,
                                    .last = sizes.held + std::min(sizes.rows, row + slice),
                                    .kv_head = item % sizes.kv_heads,
                                    .held_k = held_data<T>(x.held.k),
                                    .held_v = held_data<T>(x.held.v)});
    };
    // An item is a slice of query tokens and one key head. It writes rows of out and lse that no
    // other item writes.
    each_item(slices * sizes.kv_heads, kernels::attention_scratch(heads, sizes.head_dim), attend);
  });
  return {out, lse};
}

OutputAndLse attention_forward_cpu(const at::Tensor& q_any, const at::Tensor& k_any,
                                   const at::Tensor& v_any, at::IntArrayRef cu_seqlens,
                                   double scale, int64_t window, at::IntArrayRef parent) {
  check_attention(q_any, k_any, v_any, cu_seqlens, window, parent);
  if (q_any.scalar_type() == at::kDouble) {
    return attention_forward_composed(q_any, k_any, v_any, cu_seqlens, scale, window, parent);
  }
  // fp16 is computed in fp32 and rounded once.
  if (!has_kernel_type(q_any)) {
    auto [out, lse] =
        attention_forward_cpu(q_any.to(at::kFloat), k_any.to(at::kFloat), v_any.to(at::kFloat),
                              cu_seqlens, scale, window, parent);
    return {out.to(q_any.scalar_type()), lse};
  }
  return kernel_forward({q_any, k_any, v_any}, *layout_paths(cu_seqlens, parent), scale, window);
}

// A tree, a key head, and some of its query heads.
struct BackwardItem {
  int64_t first, last, kv_head, head, heads;
  int64_t head_group;  // the number of this group of query heads among the key head's groups
};

// Below this many items the query heads of a key head are computed in several groups, so that a few
// long sequences keep the threads busy. dk and dv of the groups are then summed in order.
constexpr int64_t kFewItems = 8;

// Returns the number of groups that a key head's query heads are cut into; it divides their number.
int64_t head_group_count(int64_t trees, const kernels::AttentionSizes& s) {
  const int64_t heads = s.heads / s.kv_heads;
  int64_t head_groups = 1;
  while (head_groups < heads &&
         (trees * s.kv_heads * head_groups < kFewItems || heads % head_groups != 0))
    ++head_groups;
  return head_groups;
}

std::vector<BackwardItem> backward_items(const LayoutPaths& paths, const kernels::AttentionSizes& s,
                                         int64_t head_groups) {
  const int64_t heads = s.heads / s.kv_heads, share = heads / head_groups;
  std::vector<BackwardItem> items;
  for (size_t tree = 0; tree + 1 < paths.roots.size(); ++tree) {
    const int64_t first = std::max(paths.roots[tree], s.held);
    if (first >= paths.roots[tree + 1]) continue;  // the whole tree is held
    for (int64_t g = 0; g < s.kv_heads; ++g) {
      for (int64_t head_group = 0; head_group < head_groups; ++head_group) {
        items.push_back(
            {first, paths.roots[tree + 1], g, g * heads + head_group * share, share, head_group});
      }
    }
  }
  // Long trees go first, so that none starts when all others are done.
  std::stable_sort(items.begin(), items.end(), [](const BackwardItem& a, const BackwardItem& b) {
    return a.last - a.first > b.last - b.first;
  });
  return items;
}

// Returns gradients whose dk and dv cover all rows of the layout, held ones first. An item has a
// whole tree, since all rows of a tree add to the same keys.
Gradients kernel_backward(const Operands& x, const at::Tensor& grad_any, const at::Tensor& out_any,
                          const at::Tensor& lse_any, const LayoutPaths& paths, double scale,
                          int64_t window) {
  const at::Tensor grad = grad_any.contiguous(), out = out_any.contiguous();
  const at::Tensor lse = lse_any.contiguous();
  const at::ScalarType type = x.q.scalar_type();
  const kernels::AttentionSizes s = x.sizes(scale);
  const auto trees = static_cast<int64_t>(paths.roots.size()) - 1;
  const int64_t head_groups = head_group_count(trees, s), kv_width = s.kv_heads * s.head_dim;
  const int64_t tokens = s.held + s.rows;
  const std::vector<BackwardItem> items = backward_items(paths, s, head_groups);
  const at::Tensor dq = at::empty_like(x.q);
  // [head_groups, T, J, K] each, in fp32 whatever the type, since a key of a long sequence receives
  // thousands of terms.
  const at::Tensor dk = at::zeros({head_groups, tokens, s.kv_heads, s.head_dim}, at::kFloat);
  const at::Tensor dv = at::zeros(dk.sizes(), at::kFloat);
  with_kernel_type(x.q, [&](auto type_tag) {
    using T = decltype(type_tag);
    const auto attend = [&](int64_t i, float* scratch) {
      // Items share no row of dq, nor of a group's dk and dv, so sums need no lock.
      const BackwardItem& item = items[static_cast<size_t>(i)];
      const int64_t at = item.head_group * tokens * kv_width + item.kv_head * s.head_dim;
      kernels::cpu_kernels().run(
          kernels::PathAttentionBackward<T>{.grad = kernel_data<T>(grad),
                                            .q = kernel_data<T>(x.q),
                                            .k = kernel_data<T>(x.k),
                                            .v = kernel_data<T>(x.v),
                                            .out = kernel_data<T>(out),
                                            .lse = kernel_data<float>(lse),
                                            .dq = kernel_data<T>(dq),
                                            .dk = kernel_data<float>(dk) + at,
                                            .dv = kernel_data<float>(dv) + at,
                                            .kv_row = kv_width,
                                            .scratch = scratch,
                                            .nodes = kernel_nodes(paths, window),
                                            .sizes = s,
                                            .first = item.first,
                                            .last = item.last,
                                            .kv_head = item.kv_head,
                                            .head = item.head,
                                            .heads = item.heads,
                                            .held_k = held_data<T>(x.held.k),
                                            .held_v = held_data<T>(x.held.v)});
    };
    each_item(static_cast<int64_t>(items.size()),
              kernels::attention_scratch(s.heads / s.kv_heads / head_groups, s.head_dim), attend);
  });
  const auto summed = [&](const at::Tensor& of) {
    if (head_groups == 1) return of[0].to(type);
    const at::Tensor sum = of[0].add(of[1]);  // a new tensor, so that the groups can be freed
    for (int64_t head_group = 2; head_group < head_groups; ++head_group) sum.add_(of[head_group]);
    return sum.to(type);
  };
  return {dq, summed(dk), summed(dv)};
}

Gradients attention_backward_cpu(const at::Tensor& grad_any, const at::Tensor& q_any,
                                 const at::Tensor& k_any, const at::Tensor& v_any,
                                 const at::Tensor& out_any, const at::Tensor& lse_any,
                                 at::IntArrayRef cu_seqlens, double scale, int64_t window,
                                 at::IntArrayRef parent) {
  check_attention_backward(grad_any, q_any, k_any, v_any, out_any, lse_any, cu_seqlens, window,
                           parent);
  const at::ScalarType type = q_any.scalar_type();
  if (type == at::kDouble) {
    return attention_backward_composed(grad_any, q_any, k_any, v_any, out_any, lse_any, cu_seqlens,
                                       scale, window, parent);
  }
  // As in the forward.
  if (!has_kernel_type(q_any)) {
    const auto wide = [](const at::Tensor& x) { return x.to(at::kFloat); };
    const auto [dq, dk, dv] =
        attention_backward_cpu(wide(grad_any), wide(q_any), wide(k_any), wide(v_any), wide(out_any),
                               lse_any, cu_seqlens, scale, window, parent);
    return {dq.to(type), dk.to(type), dv.to(type)};
  }
  return kernel_backward({q_any, k_any, v_any}, grad_any, out_any, lse_any,
                         *layout_paths(cu_seqlens, parent), scale, window);
}

static_assert(std::is_same_v<decltype(attention_forward_cpu), AttentionForward>);
static_assert(std::is_same_v<decltype(attention_backward_cpu), AttentionBackward>);

// Checks both held tensors against k, which check_attention() has checked.
void check_held(const at::Tensor& q, const at::Tensor& k, const HeldKeys& held) {
  for (const auto& [name, x] : {std::pair{"held k", &held.k}, std::pair{"held v", &held.v}}) {
    check_type("varlen_attention", name, *x, q.scalar_type(), q.device());
    check_sizes("varlen_attention", name, *x, {held.k.size(0), k.size(1), k.size(2)}, q.device());
  }
}

}  // namespace

OutputAndLse held_attention_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                    const HeldKeys& held, at::IntArrayRef cu_seqlens, double scale,
                                    int64_t window, at::IntArrayRef parent) {
  check_attention(q, k, v, cu_seqlens, window, parent, held.k.size(0));
  check_held(q, k, held);
  return kernel_forward({q, k, v, held}, *layout_paths(cu_seqlens, parent), scale, window);
}

HeldGradients held_attention_backward(const at::Tensor& grad, const at::Tensor& q,
                                      const at::Tensor& k, const at::Tensor& v,
                                      const HeldKeys& held, const at::Tensor& out,
                                      const at::Tensor& lse, at::IntArrayRef cu_seqlens,
                                      double scale, int64_t window, at::IntArrayRef parent) {
  const int64_t rows = held.k.size(0);
  check_attention_backward(grad, q, k, v, out, lse, cu_seqlens, window, parent, rows);
  const auto [dq, dk, dv] = kernel_backward({q, k, v, held}, grad, out, lse,
                                            *layout_paths(cu_seqlens, parent), scale, window);
  const auto own = [&](const at::Tensor& x) { return x.narrow(0, rows, q.size(0)); };
  // Copies, since a leaf keeps the first gradient that it gets, and a view would keep all rows of
  // the layout.
  const auto of_held = [&](const at::Tensor& x) { return x.narrow(0, 0, rows).clone(); };
  return {dq, own(dk), own(dv), {of_held(dk), of_held(dv)}};
}

TORCH_LIBRARY_IMPL(xrun, CPU, m) {
  m.impl("varlen_attention_forward", attention_forward_cpu);
  m.impl("varlen_attention_backward", attention_backward_cpu);
}

}  // namespace xrun
