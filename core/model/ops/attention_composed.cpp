// With p = exp(scale q k^T - lse), masked:  out = p v;  dv = p^T g;
// ds = p (g v^T - sum(g out));  dq = scale ds k;  dk = scale ds^T q.

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
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

// Rows [begin, begin + n) as [H, n, K], upcast: the reference form computes in fp32.
at::Tensor heads_first(const at::Tensor& x, int64_t begin, int64_t n) {
  return x.narrow(0, begin, n).permute({1, 0, 2}).to(at::kFloat);
}

// True where query i may not see key j: after it, or `window` or more before it.
at::Tensor unseen(int64_t n, int64_t window, c10::Device device) {
  const at::Tensor all = at::ones({n, n}, at::TensorOptions().dtype(at::kBool).device(device));
  const at::Tensor later = all.triu(1);
  return window > 0 && n > window ? later.logical_or(all.tril(-window)) : later;
}

// Masked scores [H, n, n] of a segment.
at::Tensor scores(const at::Tensor& q, const at::Tensor& k, double scale, int64_t window) {
  return at::matmul(q, k.transpose(1, 2))
      .mul_(scale)
      .masked_fill_(unseen(q.size(1), window, q.device()), -kInfinity);
}

template <class F>
void each_segment(at::IntArrayRef cu_seqlens, F f) {
  for (size_t s = 0; s + 1 < cu_seqlens.size(); ++s) {
    const int64_t begin = cu_seqlens[s], n = cu_seqlens[s + 1] - begin;
    if (n > 0) f(begin, n);
  }
}

PackBorders make_borders(at::IntArrayRef cu_seqlens, c10::Device device) {
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

}  // namespace

std::tuple<at::Tensor, at::Tensor> attention_forward_composed(const at::Tensor& q,
                                                              const at::Tensor& k,
                                                              const at::Tensor& v,
                                                              at::IntArrayRef cu_seqlens,
                                                              double scale, int64_t window) {
  check_attention(q, k, v, cu_seqlens, window);
  const int64_t heads = q.size(1);
  const at::Tensor all_k = head_copies(k, heads), all_v = head_copies(v, heads);
  const at::Tensor out = at::empty(q.sizes(), q.options());
  const at::Tensor lse = at::empty({heads, q.size(0)}, q.options().dtype(at::kFloat));
  each_segment(cu_seqlens, [&](int64_t begin, int64_t n) {
    const at::Tensor s =
        scores(heads_first(q, begin, n), heads_first(all_k, begin, n), scale, window);
    const at::Tensor l = at::logsumexp(s, -1, /*keepdim=*/true);
    const at::Tensor y = at::matmul(s.sub(l).exp_(), heads_first(all_v, begin, n));
    out.narrow(0, begin, n).copy_(y.permute({1, 0, 2}));
    lse.narrow(1, begin, n).copy_(l.squeeze(-1));
  });
  return {out, lse};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward_composed(
    const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const at::Tensor& out, const at::Tensor& lse, at::IntArrayRef cu_seqlens, double scale,
    int64_t window) {
  check_attention(q, k, v, cu_seqlens, window);
  const int64_t heads = q.size(1), groups = k.size(1);
  check_attention_backward(grad, q, out, lse);
  const at::Tensor all_k = head_copies(k, heads), all_v = head_copies(v, heads);
  const at::Tensor dq = at::empty(q.sizes(), q.options().dtype(at::kFloat));
  const at::Tensor dk = at::empty_like(dq), dv = at::empty_like(dq);
  each_segment(cu_seqlens, [&](int64_t begin, int64_t n) {
    const at::Tensor q1 = heads_first(q, begin, n), k1 = heads_first(all_k, begin, n);
    const at::Tensor g = heads_first(grad, begin, n);
    const at::Tensor p =
        scores(q1, k1, scale, window).sub_(lse.narrow(1, begin, n).unsqueeze(2)).exp_();
    const at::Tensor delta = g.mul(heads_first(out, begin, n)).sum(-1, /*keepdim=*/true);
    const at::Tensor dp = at::matmul(g, heads_first(all_v, begin, n).transpose(1, 2));
    const at::Tensor ds = dp.sub_(delta).mul_(p).mul_(scale);
    dq.narrow(0, begin, n).copy_(at::matmul(ds, k1).permute({1, 0, 2}));
    dk.narrow(0, begin, n).copy_(at::matmul(ds.transpose(1, 2), q1).permute({1, 0, 2}));
    dv.narrow(0, begin, n).copy_(at::matmul(p.transpose(1, 2), g).permute({1, 0, 2}));
  });
  return {dq.to(q.scalar_type()), sum_of_copies(dk, groups).to(k.scalar_type()),
          sum_of_copies(dv, groups).to(v.scalar_type())};
}

PackBorders pack_borders(at::IntArrayRef cu_seqlens, c10::Device device) {
  struct LastPack {
    std::vector<int64_t> cu_seqlens;
    c10::Device device = c10::kCPU;
    PackBorders borders;
  };
  // Never destroyed: the device may be gone before the thread is.
  static thread_local LastPack* const last = new LastPack;
  if (last->cu_seqlens.empty() || at::IntArrayRef(last->cu_seqlens) != cu_seqlens ||
      last->device != device) {
    last->borders = make_borders(cu_seqlens, device);
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

at::Tensor head_copies(const at::Tensor& k, int64_t heads) {
  const int64_t T = k.size(0), groups = k.size(1), width = k.size(2);
  if (groups == heads) return k;
  return k.unsqueeze(2).expand({T, groups, heads / groups, width}).reshape({T, heads, width});
}

at::Tensor sum_of_copies(const at::Tensor& dk, int64_t groups) {
  const int64_t heads = dk.size(1);
  if (groups == heads) return dk;
  return dk.view({dk.size(0), groups, heads / groups, dk.size(2)}).sum(2);
}

TORCH_LIBRARY_IMPL(xrun, CompositeExplicitAutograd, m) {
  m.impl("varlen_attention_forward", attention_forward_composed);
  m.impl("varlen_attention_backward", attention_backward_composed);
}

}  // namespace xrun
