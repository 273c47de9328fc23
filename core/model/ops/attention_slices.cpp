// In preorder the rows below a node follow its own rows, and nodes of one level have disjoint
// subtrees. So a level's rectangles are one call, in which every row occurs at most once.

#include "core/model/ops/attention_slices.h"

#include <ATen/ops/logaddexp.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "core/model/ops/device.h"

namespace xrun {

namespace {

// Rows of the pack in segments.
struct RowRuns {
  std::vector<int64_t> rows, borders = {0};

  void add(int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) rows.push_back(row);
    borders.push_back(static_cast<int64_t>(rows.size()));
  }
};

std::vector<AttentionSlice> make_slices(const LayoutPaths& paths, c10::Device device) {
  std::vector<AttentionSlice> slices;
  const PackBorders nodes = make_pack_borders(paths.cu_seqlens, device);
  slices.push_back(
      {.query_rows = {}, .key_rows = {}, .queries = nodes, .keys = nodes, .causal = true});
  struct Level {
    RowRuns queries, keys;
  };
  std::vector<Level> levels;
  std::vector<size_t> depth(paths.parent.size(), 0);
  for (size_t n = 0; n < paths.parent.size(); ++n) {
    if (paths.parent[n] >= 0) depth[n] = depth[static_cast<size_t>(paths.parent[n])] + 1;
    // Rows below a node see all of its keys, so the rectangle has no mask.
    const int64_t begin = paths.cu_seqlens[n], below = paths.cu_seqlens[n + 1];
    // An empty node has no keys, a leaf no rows below it.
    if (begin == below || below == paths.end[n]) continue;
    if (levels.size() <= depth[n]) levels.resize(depth[n] + 1);
    levels[depth[n]].queries.add(below, paths.end[n]);
    levels[depth[n]].keys.add(begin, below);
  }
  const auto rows = [&](const RowRuns& runs) {
    return on_device(at::tensor(runs.rows, at::dtype(at::kLong)), device);
  };
  for (const Level& level : levels) {
    if (level.queries.rows.empty()) continue;  // the nodes of this level are empty
    slices.push_back({.query_rows = rows(level.queries),
                      .key_rows = rows(level.keys),
                      .queries = make_pack_borders(level.queries.borders, device),
                      .keys = make_pack_borders(level.keys.borders, device),
                      .causal = false});
  }
  return slices;
}

// Undefined `rows` stands for all of them, in order.
at::Tensor rows_of(const at::Tensor& x, const at::Tensor& rows, int64_t dim = 0) {
  return rows.defined() ? x.index_select(dim, rows) : x;
}

// Adds y to the given rows of sum. Each is given once, so that no atomics are needed and the bits
// are the same every time.
void add_rows(at::Tensor& sum, const at::Tensor& rows, const at::Tensor& y) {
  if (!rows.defined()) {
    sum.add_(y);
  } else {
    sum.index_copy_(0, rows, sum.index_select(0, rows).add_(y));
  }
}

}  // namespace

std::shared_ptr<const std::vector<AttentionSlice>> attention_slices(const LayoutPaths& paths,
                                                                    c10::Device device) {
  struct LastSlices {
    std::vector<int64_t> cu_seqlens, parent;
    c10::Device device = c10::kCPU;
    std::shared_ptr<const std::vector<AttentionSlice>> slices;
  };
  // Never destroyed, since the device may be gone before the thread ends.
  static thread_local LastSlices* const last = new LastSlices;
  if (!last->slices || last->cu_seqlens != paths.cu_seqlens || last->parent != paths.parent ||
      last->device != device) {
    *last = {paths.cu_seqlens, paths.parent, device,
             std::make_shared<const std::vector<AttentionSlice>>(make_slices(paths, device))};
  }
  return last->slices;
}

void merge_rows(at::Tensor& out, at::Tensor& lse, const at::Tensor& rows, const at::Tensor& y,
                const at::Tensor& l) {
  // The shares exp(lse_i - both) are at most 1, so they do not overflow, whatever the scores are.
  const at::Tensor before = rows_of(lse, rows, 1);
  const at::Tensor both = at::logaddexp(before, l);
  const auto share = [&](const at::Tensor& one) { return one.sub(both).exp_().t().unsqueeze(2); };
  const at::Tensor merged =
      rows_of(out, rows).mul_(share(before)).add_(y.to(out.scalar_type()).mul_(share(l)));
  if (!rows.defined()) {
    out = merged, lse = both;
    return;
  }
  out.index_copy_(0, rows, merged);
  lse.index_copy_(1, rows, both);
}

std::tuple<at::Tensor, at::Tensor> merged_forward(const at::Tensor& q, const at::Tensor& k,
                                                  const at::Tensor& v,
                                                  const std::vector<AttentionSlice>& slices,
                                                  const SliceForward& forward) {
  at::Tensor out, lse;
  for (const AttentionSlice& slice : slices) {
    // y [rows, H, K], l [H, rows]; out = sum of exp(lse_i - lse) y_i over the slices of a row.
    auto [y, l] = forward(rows_of(q, slice.query_rows), rows_of(k, slice.key_rows),
                          rows_of(v, slice.key_rows), slice);
    // The first slice covers every row, since each row sees itself.
    if (!out.defined()) {
      out = y.to(l.scalar_type()), lse = l;
      continue;
    }
    merge_rows(out, lse, slice.query_rows, y, l);
  }
  return {out.to(q.scalar_type()), lse};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> merged_backward(
    const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const at::Tensor& out, const at::Tensor& lse, const std::vector<AttentionSlice>& slices,
    const SliceBackward& backward) {
  const auto sum_like = [&](const at::Tensor& x) {
    return at::zeros(x.sizes(), x.options().dtype(lse.scalar_type()));
  };
  at::Tensor dq = sum_like(q), dk = sum_like(k), dv = sum_like(v);
  for (const AttentionSlice& slice : slices) {
    const at::Tensor &rows = slice.query_rows, &keys = slice.key_rows;
    // With out and lse of the whole row, a slice's p is its part of the row's softmax, so that
    // gradients add up.
    const auto [gq, gk, gv] =
        backward(rows_of(grad, rows), rows_of(q, rows), rows_of(k, keys), rows_of(v, keys),
                 rows_of(out, rows), rows_of(lse, rows, 1).contiguous(), slice);
    add_rows(dq, rows, gq);
    add_rows(dk, keys, gk);
    add_rows(dv, keys, gv);
  }
  return {dq.to(q.scalar_type()), dk.to(k.scalar_type()), dv.to(v.scalar_type())};
}

}  // namespace xrun
