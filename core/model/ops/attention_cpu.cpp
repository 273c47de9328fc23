// The CPU form of xrun::varlen_attention: our own kernels (kernels/cpu/attention.h) in fp32 and
// bf16, fp32 beneath for fp16, and the composed form for fp64. Work is cut into items that the
// shape alone fixes; threads take the next item as they become free, so neither their number nor
// their order reaches a result.

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
#include "kernels/cpu/attention.h"

namespace xrun {

namespace {

using Outputs = std::tuple<at::Tensor, at::Tensor>;
using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

kernels::AttentionNodes kernel_nodes(const LayoutPaths& paths, int64_t window) {
  return {paths.cu_seqlens.data(), paths.parent.data(), paths.position.data(),
          paths.end.data(),        paths.nodes(),       window};
}

kernels::AttentionSizes kernel_sizes(const at::Tensor& q, const at::Tensor& k, double scale) {
  return {q.size(0), q.size(1), k.size(1), q.size(2), static_cast<float>(scale)};
}

// Calls f(item, scratch) for items 0 to count - 1, each on the next free thread.
void each_item(int64_t count, int64_t scratch_size, const std::function<void(int64_t, float*)>& f) {
  std::atomic<int64_t> next = 0;
  const int64_t threads = std::min<int64_t>(at::get_num_threads(), count);
  at::parallel_for(0, threads, 1, [&](int64_t from, int64_t to) {
    const at::Tensor scratch = scratch_floats(scratch_size);
    for (; from < to; ++from) {
      for (int64_t item = next++; item < count; item = next++) {
        f(item, scratch.mutable_data_ptr<float>());
      }
    }
  });
}

Outputs attention_forward_cpu(const at::Tensor& q_any, const at::Tensor& k_any,
                              const at::Tensor& v_any, at::IntArrayRef cu_seqlens, double scale,
                              int64_t window, at::IntArrayRef parent) {
  check_attention(q_any, k_any, v_any, cu_seqlens, window, parent);
  if (q_any.scalar_type() == at::kDouble) {
    return attention_forward_composed(q_any, k_any, v_any, cu_seqlens, scale, window, parent);
  }
  if (!has_kernel_type(q_any)) {
    auto [out, lse] =
        attention_forward_cpu(q_any.to(at::kFloat), k_any.to(at::kFloat), v_any.to(at::kFloat),
                              cu_seqlens, scale, window, parent);
    return {out.to(q_any.scalar_type()), lse};
  }
  const at::Tensor q = q_any.contiguous(), k = k_any.contiguous(), v = v_any.contiguous();
  const at::Tensor out = at::empty_like(q);
  const at::Tensor lse = at::empty({q.size(1), q.size(0)}, at::kFloat);
  const auto paths = layout_paths(cu_seqlens, parent);
  const kernels::AttentionSizes sizes = kernel_sizes(q, k, scale);
  const int64_t heads = sizes.heads / sizes.kv_heads, chunk = kernels::attention_chunk(heads);
  const int64_t chunks = (sizes.rows + chunk - 1) / chunk;
  with_kernel_type(q, [&](auto unit) {
    using T = decltype(unit);
    const auto attend = [&](int64_t item, float* scratch) {
      // The last chunks of a sequence see the most keys: they go first.
      const int64_t first = (chunks - 1 - item / sizes.kv_heads) * chunk;
      kernels::cpu_kernels().run(kernels::PathAttention<T>{
          kernel_data<T>(q), kernel_data<T>(k), kernel_data<T>(v), kernel_data<T>(out),
          kernel_data<float>(lse), scratch, kernel_nodes(*paths, window), sizes, first,
          std::min(sizes.rows, first + chunk), item % sizes.kv_heads});
    };
    each_item(chunks * sizes.kv_heads, kernels::attention_scratch(heads, sizes.head_dim), attend);
  });
  return {out, lse};
}

// A tree, a key head, and some of its query heads.
struct BackwardItem {
  int64_t first, last, kv_head, head, heads;
  int64_t head_group;  // number of those query heads among the key head's groups
};

// Below this many items the query heads of a key head are computed in several groups, so that a few
// long sequences keep the threads busy. dk and dv of the groups are then summed in order.
constexpr int64_t kFewItems = 8;

// Groups that the query heads of a key head are cut into: a divisor of their number.
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
    for (int64_t g = 0; g < s.kv_heads; ++g) {
      for (int64_t head_group = 0; head_group < head_groups; ++head_group) {
        items.push_back({paths.roots[tree], paths.roots[tree + 1], g,
                         g * heads + head_group * share, share, head_group});
      }
    }
  }
  // Long trees first, so that none of them is begun when the rest is done.
  std::stable_sort(items.begin(), items.end(), [](const BackwardItem& a, const BackwardItem& b) {
    return a.last - a.first > b.last - b.first;
  });
  return items;
}

Gradients attention_backward_cpu(const at::Tensor& grad_any, const at::Tensor& q_any,
                                 const at::Tensor& k_any, const at::Tensor& v_any,
                                 const at::Tensor& out_any, const at::Tensor& lse_any,
                                 at::IntArrayRef cu_seqlens, double scale, int64_t window,
                                 at::IntArrayRef parent) {
  check_attention(q_any, k_any, v_any, cu_seqlens, window, parent);
  check_attention_backward(grad_any, q_any, out_any, lse_any);
  const at::ScalarType type = q_any.scalar_type();
  if (type == at::kDouble) {
    return attention_backward_composed(grad_any, q_any, k_any, v_any, out_any, lse_any, cu_seqlens,
                                       scale, window, parent);
  }
  if (!has_kernel_type(q_any)) {
    const auto wide = [](const at::Tensor& x) { return x.to(at::kFloat); };
    const auto [dq, dk, dv] =
        attention_backward_cpu(wide(grad_any), wide(q_any), wide(k_any), wide(v_any), wide(out_any),
                               lse_any, cu_seqlens, scale, window, parent);
    return {dq.to(type), dk.to(type), dv.to(type)};
  }
  const at::Tensor grad = grad_any.contiguous(), out = out_any.contiguous();
  const at::Tensor lse = lse_any.contiguous();
  const at::Tensor q = q_any.contiguous(), k = k_any.contiguous(), v = v_any.contiguous();
  const auto paths = layout_paths(cu_seqlens, parent);
  const kernels::AttentionSizes s = kernel_sizes(q, k, scale);
  const auto trees = static_cast<int64_t>(paths->roots.size()) - 1;
  const int64_t head_groups = head_group_count(trees, s), kv_width = s.kv_heads * s.head_dim;
  const std::vector<BackwardItem> items = backward_items(*paths, s, head_groups);
  const at::Tensor dq = at::empty_like(q);
  // [head_groups, T, G, K] each
  const at::Tensor dk = at::zeros({head_groups, s.rows, s.kv_heads, s.head_dim}, at::kFloat);
  const at::Tensor dv = at::zeros(dk.sizes(), at::kFloat);
  with_kernel_type(q, [&](auto unit) {
    using T = decltype(unit);
    const auto attend = [&](int64_t i, float* scratch) {
      const BackwardItem& item = items[static_cast<size_t>(i)];
      const int64_t at = item.head_group * s.rows * kv_width + item.kv_head * s.head_dim;
      kernels::cpu_kernels().run(kernels::PathAttentionBackward<T>{
          kernel_data<T>(grad), kernel_data<T>(q), kernel_data<T>(k), kernel_data<T>(v),
          kernel_data<T>(out), kernel_data<float>(lse), kernel_data<T>(dq),
          kernel_data<float>(dk) + at, kernel_data<float>(dv) + at, kv_width, scratch,
          kernel_nodes(*paths, window), s, item.first, item.last, item.kv_head, item.head,
          item.heads});
    };
    each_item(static_cast<int64_t>(items.size()),
              kernels::attention_scratch(s.heads / s.kv_heads / head_groups, s.head_dim), attend);
  });
  const auto summed = [&](const at::Tensor& x) {
    if (head_groups == 1) return x[0].to(type);
    const at::Tensor sum = x[0].add(x[1]);  // a tensor that does not keep the groups alive
    for (int64_t head_group = 2; head_group < head_groups; ++head_group) sum.add_(x[head_group]);
    return sum.to(type);
  };
  return {dq, summed(dk), summed(dv)};
}

static_assert(std::is_same_v<decltype(attention_forward_cpu), AttentionForward>);
static_assert(std::is_same_v<decltype(attention_backward_cpu), AttentionBackward>);

}  // namespace

TORCH_LIBRARY_IMPL(xrun, CPU, m) {
  m.impl("varlen_attention_forward", attention_forward_cpu);
  m.impl("varlen_attention_backward", attention_backward_cpu);
}

}  // namespace xrun
