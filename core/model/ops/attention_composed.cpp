// With p = exp(scale q k^T - lse), masked:  out = p v;  dv = p^T g;
// ds = p (g v^T - sum(g out));  dq = scale ds k;  dk = scale ds^T q.
// In preorder a row q sees key k if and only if k <= q < end(k), where end(k) is the row after the
// subtree of k's node: earlier rows of other branches belong to subtrees that have ended.

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/tensor.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "core/model/ops/attention_op.h"
#include "core/model/ops/device.h"

namespace xrun {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kPadding = 32;  // kAlignLSE of ATen's memory-efficient attention

// Returns rows [begin, begin + n) as [H, n, K], upcast to at least fp32.
at::Tensor heads_first(const at::Tensor& x, int64_t begin, int64_t n) {
  return x.narrow(0, begin, n).permute({1, 0, 2}).to(wide_type(x));
}

// For each row of a tree: its position on the path, and the row after its node's subtree.
struct TreeRows {
  at::Tensor position, end;  // [n] int64, `end` counted from the tree's first row
};

TreeRows tree_rows(const LayoutPaths& paths, int64_t begin, int64_t n, c10::Device device) {
  std::vector<int64_t> position, end;
  for (size_t node = 0; node < paths.parent.size(); ++node) {
    // Skips the nodes of other trees.
    if (paths.cu_seqlens[node] < begin || paths.cu_seqlens[node + 1] > begin + n) continue;
    for (int64_t row = paths.cu_seqlens[node]; row < paths.cu_seqlens[node + 1]; ++row) {
      position.push_back(paths.position[node] + row - paths.cu_seqlens[node]);
      end.push_back(paths.end[node] - begin);
    }
  }
  return {on_device(at::tensor(position, at::dtype(at::kLong)), device),
          on_device(at::tensor(end, at::dtype(at::kLong)), device)};
}

// Returns [n, n], true where query i may not see key j: i is before j, after the subtree of j's
// node, or at least `window` after j on the path.
at::Tensor unseen(const TreeRows& rows, int64_t window) {
  const at::Tensor row = at::arange(rows.position.size(0), rows.position.options());
  const at::Tensor query = row.unsqueeze(1), key = row.unsqueeze(0);
  at::Tensor hidden = key.gt(query).logical_or_(query.ge(rows.end.unsqueeze(0)));
  if (window > 0) {
    hidden.logical_or_(rows.position.unsqueeze(1).sub(rows.position.unsqueeze(0)).ge(window));
  }
  return hidden;
}

// Returns the scores [H, n, n] of a tree. Masked ones are -inf, which a row's sum of exponentials
// ignores exactly; a large negative number would not do.
at::Tensor scores(const at::Tensor& q, const at::Tensor& k, double scale,
                  const at::Tensor& hidden) {
  return at::matmul(q, k.transpose(1, 2)).mul_(scale).masked_fill_(hidden, -kInfinity);
}

// Calls f(begin, n, mask) for every tree.
template <class F>
void each_tree(const LayoutPaths& paths, int64_t window, c10::Device device, F f) {
  for (size_t r = 0; r + 1 < paths.roots.size(); ++r) {
    const int64_t begin = paths.roots[r], n = paths.roots[r + 1] - begin;
    f(begin, n, unseen(tree_rows(paths, begin, n, device), window));
  }
}

// Calls f for every segment that has rows.
template <class F>
void each_segment(at::IntArrayRef cu_seqlens, F f) {
  for (size_t s = 0; s + 1 < cu_seqlens.size(); ++s) {
    const int64_t begin = cu_seqlens[s], n = cu_seqlens[s + 1] - begin;
    if (n > 0) f(begin, n);
  }
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> attention_forward_composed(
    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, at::IntArrayRef cu_seqlens,
    double scale, int64_t window, at::IntArrayRef parent) {
  check_attention(q, k, v, cu_seqlens, window, parent);
  const auto paths = layout_paths(cu_seqlens, parent);
  const int64_t heads = q.size(1);
  const at::Tensor all_k = head_copies(k, heads), all_v = head_copies(v, heads);
  const at::Tensor out = at::empty(q.sizes(), q.options());
  const at::Tensor lse = at::empty({heads, q.size(0)}, q.options().dtype(wide_type(q)));
  each_tree(*paths, window, q.device(), [&](int64_t begin, int64_t n, const at::Tensor& hidden) {
    const at::Tensor s =
        scores(heads_first(q, begin, n), heads_first(all_k, begin, n), scale, hidden);
    // exp(s - lse) instead of a softmax, since the backward forms p from the same lse.
    const at::Tensor l = at::logsumexp(s, -1, /*keepdim=*/true);
    // p is normalised already, so one product gives the output.
    const at::Tensor y = at::matmul(s.sub(l).exp_(), heads_first(all_v, begin, n));
    out.narrow(0, begin, n).copy_(y.permute({1, 0, 2}));
    lse.narrow(1, begin, n).copy_(l.squeeze(-1));
  });
  return {out, lse};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward_composed(
    const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const at::Tensor& out, const at::Tensor& lse, at::IntArrayRef cu_seqlens, double scale,
    int64_t window, at::IntArrayRef parent) {
  check_attention_backward(grad, q, k, v, out, lse, cu_seqlens, window, parent);
  const auto paths = layout_paths(cu_seqlens, parent);
  const int64_t heads = q.size(1), kv_heads = k.size(1);
  const at::Tensor all_k = head_copies(k, heads), all_v = head_copies(v, heads);
  const at::Tensor dq = at::empty(q.sizes(), q.options().dtype(wide_type(q)));
  const at::Tensor dk = at::empty_like(dq), dv = at::empty_like(dq);
  each_tree(*paths, window, q.device(), [&](int64_t begin, int64_t n, const at::Tensor& hidden) {
    const at::Tensor q1 = heads_first(q, begin, n), k1 = heads_first(all_k, begin, n);
    const at::Tensor g = heads_first(grad, begin, n);
    // [H, n, n], as are dp and ds.
    const at::Tensor p =
        scores(q1, k1, scale, hidden).sub_(lse.narrow(1, begin, n).unsqueeze(2)).exp_();
    const at::Tensor delta = g.mul(heads_first(out, begin, n)).sum(-1, /*keepdim=*/true);
    const at::Tensor dp = at::matmul(g, heads_first(all_v, begin, n).transpose(1, 2));
    const at::Tensor ds = dp.sub_(delta).mul_(p).mul_(scale);
    dq.narrow(0, begin, n).copy_(at::matmul(ds, k1).permute({1, 0, 2}));
    dk.narrow(0, begin, n).copy_(at::matmul(ds.transpose(1, 2), q1).permute({1, 0, 2}));
    dv.narrow(0, begin, n).copy_(at::matmul(p.transpose(1, 2), g).permute({1, 0, 2}));
  });
  return {dq.to(q.scalar_type()), sum_of_copies(dk, kv_heads).to(k.scalar_type()),
          sum_of_copies(dv, kv_heads).to(v.scalar_type())};
}

PackBorders make_pack_borders(at::IntArrayRef cu_seqlens, c10::Device device) {
  PackBorders borders;
  std::vector<int> starts = {0};
  each_segment(cu_seqlens, [&](int64_t begin, int64_t n) {
    starts.push_back(static_cast<int>(begin + n));
    borders.longest = std::max(borders.longest, n);
  });
  borders.count = static_cast<int64_t>(starts.size()) - 1;
  borders.padded = (borders.longest + kPadding - 1) / kPadding * kPadding;
  std::vector<int64_t> padded_row;
  int64_t segment = 0;
  each_segment(cu_seqlens, [&](int64_t, int64_t n) {
    for (int64_t i = 0; i < n; ++i) padded_row.push_back(segment * borders.padded + i);
    ++segment;
  });
  borders.cu_seqlens = on_device(at::tensor(starts, at::dtype(at::kInt)), device);
  borders.padded_row = on_device(at::tensor(padded_row, at::dtype(at::kLong)), device);
  return borders;
}

PackBorders pack_borders(at::IntArrayRef cu_seqlens, c10::Device device) {
  struct LastPack {
    std::vector<int64_t> cu_seqlens;
    c10::Device device = c10::kCPU;
    PackBorders borders;
  };
  // Never destroyed, since the device may be gone before the thread ends.
  static thread_local LastPack* const last = new LastPack;
  if (last->cu_seqlens.empty() || at::IntArrayRef(last->cu_seqlens) != cu_seqlens ||
      last->device != device) {
    last->borders = make_pack_borders(cu_seqlens, device);
    last->cu_seqlens = cu_seqlens.vec();
    last->device = device;
  }
  return last->borders;
}

at::Tensor unpadded_lse(const at::Tensor& padded, const PackBorders& borders) {
  TORCH_CHECK(
      padded.dim() == 3 && padded.size(0) == borders.count && padded.size(2) == borders.padded,
      "varlen_attention: the library's log-sum-exp is ", padded.sizes(), ", wanted [",
      borders.count, ", H, ", borders.padded,
      "]: this LibTorch is not the one that xrun was built for; use --device cpu");
  const int64_t heads = padded.size(1);
  // [S, H, padded] -> [H, S padded] -> [H, T]
  return padded.permute({1, 0, 2})
      .reshape({heads, borders.count * borders.padded})
      .index_select(1, borders.padded_row);
}

at::Tensor padded_lse(const at::Tensor& lse, const PackBorders& borders) {
  const int64_t heads = lse.size(0);
  return at::full({heads, borders.count * borders.padded}, kInfinity, lse.options())
      .index_copy(1, borders.padded_row, lse)
      .view({heads, borders.count, borders.padded})
      .permute({1, 0, 2})
      .contiguous();
}

// For library kernels without grouped heads.
at::Tensor head_copies(const at::Tensor& k, int64_t heads) {
  const int64_t T = k.size(0), kv_heads = k.size(1), width = k.size(2);
  if (kv_heads == heads) return k;
  return k.unsqueeze(2).expand({T, kv_heads, heads / kv_heads, width}).reshape({T, heads, width});
}

// The gradient of a copy adds to its original.
at::Tensor sum_of_copies(const at::Tensor& dk, int64_t kv_heads) {
  const int64_t heads = dk.size(1);
  if (kv_heads == heads) return dk;
  return dk.view({dk.size(0), kv_heads, heads / kv_heads, dk.size(2)}).sum(2);
}

TORCH_LIBRARY_IMPL(xrun, CompositeExplicitAutograd, m) {
  m.impl("varlen_attention_forward", attention_forward_composed);
  m.impl("varlen_attention_backward", attention_backward_composed);
}

}  // namespace xrun
