// A call multiplies all rows of an item with all of its keys, padding included, and masks by
// position: a row at p sees the keys at max(p - window + 1, start) .. min(p, end - 1).

#include "core/model/ops/cached_attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <fmt/ranges.h>
#include <torch/library.h>

#include <limits>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/model/ops/attention_slices.h"
#include "core/model/ops/op.h"

namespace xrun {

namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// Throws Error unless shapes, types and devices agree. The values of indices are not read, since
// that would wait for the device; the gathers refuse a block that does not exist.
void check_call(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values,
                const CachedCall& call, int64_t window) {
  constexpr const char* kOp = "cached_attention";
  XRUN_CHECK(q.dim() == 4 && keys.dim() == 4 && keys.size(3) == q.size(3) && keys.size(0) > 0 &&
                 q.size(2) % keys.size(0) == 0,
             "cached_attention: q is [{}], keys [{}]; wanted q [B, n, H, K] and keys "
             "[J, P, block, K] with J dividing H",
             fmt::join(q.sizes(), ", "), fmt::join(keys.sizes(), ", "));
  XRUN_CHECK(call.blocks.dim() == 2 && call.blocks.size(0) == q.size(0),
             "cached_attention: blocks is [{}], wanted [{}, b]",
             fmt::join(call.blocks.sizes(), ", "), q.size(0));
  XRUN_CHECK(window >= 0, "cached_attention: window is {}, wanted 0 (none) or more", window);
  check_floating(kOp, "q", q, q.device());
  check_type(kOp, "keys", keys, q.scalar_type(), q.device());
  check_type(kOp, "values", values, q.scalar_type(), q.device());
  check_sizes(kOp, "values", values, keys.sizes(), q.device());
  for (const auto& [name, x] :
       {std::pair{"blocks", &call.blocks}, std::pair{"start", &call.start},
        std::pair{"end", &call.end}, std::pair{"positions", &call.positions}}) {
    check_type(kOp, name, *x, at::kLong, q.device());
  }
  check_sizes(kOp, "start", call.start, {q.size(0)}, q.device());
  check_sizes(kOp, "end", call.end, {q.size(0)}, q.device());
  check_sizes(kOp, "positions", call.positions, {q.size(0), q.size(1)}, q.device());
}

// Returns [B, n, L], true where a row may not see a key.
at::Tensor unseen(const CachedCall& call, int64_t keys, int64_t window) {
  // [B, 1, L] and [B, n, 1].
  const at::Tensor key =
      call.start.unsqueeze(1).add(at::arange(keys, call.start.options()).unsqueeze(0)).unsqueeze(1);
  const at::Tensor query = call.positions.unsqueeze(2);
  at::Tensor hidden = key.gt(query).logical_or_(key.ge(call.end.view({-1, 1, 1})));
  if (window > 0) hidden.logical_or_(query.sub(key).ge(window));
  return hidden;
}

// Returns out [B, n, H, K] and lse [H, B n] for q [B, n, H, K], both fp32 (fp64 for fp64). A row
// that sees no key gets zeros and -inf.
std::tuple<at::Tensor, at::Tensor> cached_attention_composed(
    const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values, const at::Tensor& blocks,
    const at::Tensor& start, const at::Tensor& end, const at::Tensor& positions, double scale,
    int64_t window) {
  CachedCall call;
  call.blocks = blocks, call.start = start, call.end = end, call.positions = positions;
  check_call(q, keys, values, call, window);
  const int64_t B = q.size(0), n = q.size(1), H = q.size(2), K = q.size(3), J = keys.size(0);
  const int64_t G = H / J, L = blocks.size(1) * keys.size(2);
  const auto gathered = [&](const at::Tensor& x) {
    return x.index_select(1, blocks.flatten()).view({J, B, L, K}).to(wide_type(q));
  };
  // The G query heads of a key head are rows of one product: [J, B, n G, K] by [J, B, K, L].
  const at::Tensor rows = q.to(wide_type(q))
                              .reshape({B, n, J, G, K})
                              .permute({2, 0, 1, 3, 4})
                              .reshape({J, B, n * G, K});
  const at::Tensor s =
      at::matmul(rows, gathered(keys).transpose(2, 3))
          .mul_(scale)
          .view({J, B, n, G, L})
          .masked_fill_(unseen(call, L, window).view({1, B, n, 1, L}), kMinusInfinity);
  const at::Tensor l = at::logsumexp(s, -1, /*keepdim=*/true);  // [J, B, n, G, 1]
  // An l of -inf becomes 0, since exp(-inf - 0) = 0 but -inf - -inf is NaN.
  const at::Tensor p = s.sub(l.masked_fill(l.eq(kMinusInfinity), 0)).exp_();
  const at::Tensor y = at::matmul(p.view({J, B, n * G, L}), gathered(values));
  return {y.view({J, B, n, G, K}).permute({1, 2, 0, 3, 4}).reshape({B, n, H, K}),
          l.squeeze(-1).permute({0, 3, 1, 2}).reshape({H, B * n})};
}

std::tuple<at::Tensor, at::Tensor> attend(const CachedCall& call, const at::Tensor& q,
                                          const at::Tensor& keys, const at::Tensor& values,
                                          double scale, int64_t window) {
  static const auto op = find_op<decltype(cached_attention_composed)>("xrun::cached_attention");
  const at::Tensor rows = call.rows.defined() ? q.index_select(0, call.queries.flatten()) : q;
  const int64_t heads = q.size(1), width = q.size(2);
  auto [y, l] = op.call(rows.view({call.queries.size(0), call.queries.size(1), heads, width}), keys,
                        values, call.blocks, call.start, call.end, call.positions, scale, window);
  y = y.view({-1, heads, width});
  if (!call.unpadded.defined()) return {y, l};
  return {y.index_select(0, call.unpadded), l.index_select(1, call.unpadded)};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(xrun, m) {
  m.def(
      "cached_attention(Tensor q, Tensor keys, Tensor values, Tensor blocks, Tensor start, "
      "Tensor end, Tensor positions, float scale, int window=0) -> (Tensor out, Tensor lse)");
}

TORCH_LIBRARY_IMPL(xrun, CompositeExplicitAutograd, m) {
  m.impl("cached_attention", cached_attention_composed);
}

at::Tensor cached_attention(const at::Tensor& q_any, const at::Tensor& keys,
                            const at::Tensor& values, const CachedCalls& calls, double scale,
                            int64_t window) {
  const at::Tensor q = q_any.contiguous();
  at::Tensor out, lse;
  for (const CachedCall& call : calls.own) {
    auto [y, l] = attend(call, q, keys, values, scale, window);
    if (!call.rows.defined()) {
      out = y, lse = l;
      continue;
    }
    if (!out.defined()) {
      out = at::empty(q.sizes(), y.options());
      lse = at::empty({q.size(1), q.size(0)}, l.options());
    }
    out.index_copy_(0, call.rows, y);
    lse.index_copy_(1, call.rows, l);
  }
  // Every row has seen itself, so no log-sum-exp of `out` is -inf.
  for (const CachedCall& call : calls.shared) {
    const auto [y, l] = attend(call, q, keys, values, scale, window);
    merge_rows(out, lse, call.rows, y, l);
  }
  if (!out.defined()) return q;  // no rows
  return out.to(q.scalar_type()).contiguous();
}

}  // namespace xrun
