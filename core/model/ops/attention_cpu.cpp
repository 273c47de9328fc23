// The CPU form of xrun::varlen_attention. Each segment is one call of ATen's flash attention on
// strided views of the pack: grouped key heads are the batch dimension, query heads of a group the
// head dimension, and the key's head stride is zero, so no key is copied. Short segments run in
// parallel with each other, long ones in parallel within. A segment longer than the window goes by
// blocks of queries against the keys that their rows see, under an additive mask.

#include <ATen/Parallel.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "core/model/ops/attention_op.h"

namespace xrun {

namespace {

// A segment of this length alone keeps every thread busy.
constexpr int64_t kLongSegment = 512;

struct HeadShape {
  int64_t tokens, groups, heads_a_group, head_dim;
};

HeadShape head_shape(const at::Tensor& q, const at::Tensor& k) {
  return {q.size(0), k.size(1), q.size(1) / k.size(1), q.size(2)};
}

// [T, H, K] -> the segment as [G, H/G, n, K].
at::Tensor query_view(const at::Tensor& q, const HeadShape& s, int64_t begin, int64_t n) {
  return q.narrow(0, begin, n)
      .view({n, s.groups, s.heads_a_group, s.head_dim})
      .permute({1, 2, 0, 3});
}

// [T, G, K] -> the segment as [G, H/G (stride 0), n, K].
at::Tensor key_view(const at::Tensor& k, const HeadShape& s, int64_t begin, int64_t n) {
  return k.narrow(0, begin, n)
      .permute({1, 0, 2})
      .unsqueeze(1)
      .expand({s.groups, s.heads_a_group, n, s.head_dim});
}

// lse [H, T] -> the segment as [G, H/G, n].
at::Tensor lse_view(const at::Tensor& lse, const HeadShape& s, int64_t begin, int64_t n) {
  return lse.view({s.groups, s.heads_a_group, s.tokens}).narrow(2, begin, n);
}

// A block of queries and the keys that they see, as ranges of the pack.
struct AttentionTile {
  int64_t query, queries, key, keys;
  std::optional<at::Tensor> mask;  // [queries, keys] additive; none: causal, queries = keys
};

// Query i is at key i + offset and sees the last `window` keys up to that one.
at::Tensor window_mask(int64_t queries, int64_t keys, int64_t offset, int64_t window,
                       at::ScalarType type) {
  const at::Tensor never =
      at::full({queries, keys}, -std::numeric_limits<double>::infinity(), at::dtype(type));
  return never.triu(offset + 1).add_(never.tril(offset - window));
}

constexpr int64_t kMinBlock = 64;  // queries; fewer do not fill a product

// The tiles of a segment, in order of queries.
std::vector<AttentionTile> tiles_of(int64_t begin, int64_t n, int64_t window, at::ScalarType type) {
  if (window == 0 || n <= window) return {{begin, n, begin, n, {}}};
  const int64_t block = std::max(kMinBlock, window);
  const at::Tensor inner = window_mask(block, block + window - 1, window - 1, window, type);
  std::vector<AttentionTile> tiles;
  for (int64_t q = 0; q < n; q += block) {
    const int64_t queries = std::min(block, n - q), offset = q == 0 ? 0 : window - 1;
    const int64_t keys = queries + offset;
    tiles.push_back({begin + q, queries, begin + q - offset, keys,
                     q == 0 ? window_mask(queries, keys, 0, window, type)
                            : inner.narrow(0, 0, queries).narrow(1, 0, keys).contiguous()});
  }
  return tiles;
}

// Calls f(begin, n) for every non-empty segment, on several threads at once.
template <class F>
void each_segment_in_parallel(at::IntArrayRef cu_seqlens, F f) {
  std::vector<std::pair<int64_t, int64_t>> brief;
  for (size_t s = 0; s + 1 < cu_seqlens.size(); ++s) {
    const int64_t begin = cu_seqlens[s], n = cu_seqlens[s + 1] - begin;
    if (n >= kLongSegment) f(begin, n);
    if (n > 0 && n < kLongSegment) brief.emplace_back(begin, n);
  }
  if (brief.size() == 1) return f(brief[0].first, brief[0].second);
  at::parallel_for(0, static_cast<int64_t>(brief.size()), 1, [&](int64_t from, int64_t to) {
    at::AutoDispatchBelowADInplaceOrView below;  // the guard is per thread
    for (int64_t i = from; i < to; ++i) f(brief[i].first, brief[i].second);
  });
}

std::tuple<at::Tensor, at::Tensor> attention_forward_cpu(const at::Tensor& q_any,
                                                         const at::Tensor& k_any,
                                                         const at::Tensor& v_any,
                                                         at::IntArrayRef cu_seqlens, double scale,
                                                         int64_t window, at::IntArrayRef parent) {
  if (!parent.empty()) {
    return attention_forward_composed(q_any, k_any, v_any, cu_seqlens, scale, window, parent);
  }
  check_attention(q_any, k_any, v_any, cu_seqlens, window, parent);
  const at::Tensor q = q_any.contiguous(), k = k_any.contiguous(), v = v_any.contiguous();
  const HeadShape s = head_shape(q, k);
  const at::Tensor out = at::empty_like(q);
  const at::Tensor lse =
      at::empty({q.size(1), q.size(0)}, q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  each_segment_in_parallel(cu_seqlens, [&](int64_t begin, int64_t n) {
    for (const AttentionTile& t : tiles_of(begin, n, window, q.scalar_type())) {
      auto [y, l] = at::_scaled_dot_product_flash_attention_for_cpu(
          query_view(q, s, t.query, t.queries), key_view(k, s, t.key, t.keys),
          key_view(v, s, t.key, t.keys), 0.0, /*is_causal=*/!t.mask, t.mask, scale);
      query_view(out, s, t.query, t.queries).copy_(y);
      lse_view(lse, s, t.query, t.queries).copy_(l);
    }
  });
  return {out, lse};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward_cpu(
    const at::Tensor& grad_any, const at::Tensor& q_any, const at::Tensor& k_any,
    const at::Tensor& v_any, const at::Tensor& out_any, const at::Tensor& lse_any,
    at::IntArrayRef cu_seqlens, double scale, int64_t window, at::IntArrayRef parent) {
  if (!parent.empty()) {
    return attention_backward_composed(grad_any, q_any, k_any, v_any, out_any, lse_any, cu_seqlens,
                                       scale, window, parent);
  }
  check_attention(q_any, k_any, v_any, cu_seqlens, window, parent);
  check_attention_backward(grad_any, q_any, out_any, lse_any);
  const at::Tensor grad = grad_any.contiguous();
  const at::Tensor out = out_any.contiguous(), lse = lse_any.contiguous();
  const at::Tensor q = q_any.contiguous(), k = k_any.contiguous(), v = v_any.contiguous();
  const HeadShape s = head_shape(q, k);
  const at::Tensor dq = at::empty_like(q), dk = at::zeros_like(k), dv = at::zeros_like(v);
  each_segment_in_parallel(cu_seqlens, [&](int64_t begin, int64_t n) {
    for (const AttentionTile& t : tiles_of(begin, n, window, q.scalar_type())) {
      auto [gq, gk, gv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
          query_view(grad, s, t.query, t.queries), query_view(q, s, t.query, t.queries),
          key_view(k, s, t.key, t.keys), key_view(v, s, t.key, t.keys),
          query_view(out, s, t.query, t.queries), lse_view(lse, s, t.query, t.queries), 0.0,
          /*is_causal=*/!t.mask, t.mask, scale);
      query_view(dq, s, t.query, t.queries).copy_(gq);
      // query heads of a group share their key head, and blocks of queries some of their keys
      dk.narrow(0, t.key, t.keys).add_(gk.sum(1).permute({1, 0, 2}));
      dv.narrow(0, t.key, t.keys).add_(gv.sum(1).permute({1, 0, 2}));
    }
  });
  return {dq, dk, dv};
}

static_assert(std::is_same_v<decltype(attention_forward_cpu), AttentionForward>);
static_assert(std::is_same_v<decltype(attention_backward_cpu), AttentionBackward>);

}  // namespace

TORCH_LIBRARY_IMPL(xrun, CPU, m) {
  m.impl("varlen_attention_forward", attention_forward_cpu);
  m.impl("varlen_attention_backward", attention_backward_cpu);
}

}  // namespace xrun
