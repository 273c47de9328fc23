#pragma once
// Attention over trees by library calls that know only segments: one causal call over all nodes,
// and one call per level for the rectangles of the rows below a node and the node's keys. Results
// are merged by their log-sum-exps.

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <tuple>
#include <vector>

#include "core/model/ops/attention_op.h"

namespace xrun {

// One call: segment i of the queries against segment i of the keys.
struct AttentionSlice {
  at::Tensor query_rows, key_rows;  // int64 rows of the pack; undefined: all of them
  PackBorders queries, keys;        // as segments of those rows
  bool causal = false;
};

// Returns the calls of a layout that has rows, the causal one first. Remembers each thread's last
// result, since all layers ask for the same one.
std::shared_ptr<const std::vector<AttentionSlice>> attention_slices(const LayoutPaths& paths,
                                                                    c10::Device device);

// Returns out [rows, H, K] and lse [H, rows], given q, k and v of a slice's rows.
using SliceForward = std::function<std::tuple<at::Tensor, at::Tensor>(
    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionSlice& slice)>;

// Returns out in the type of q and lse in fp32 (fp64 for fp64), merged over the slices:
//   lse = log sum_i exp(lse_i), out = sum_i exp(lse_i - lse) out_i, accumulated in the type of lse.
std::tuple<at::Tensor, at::Tensor> merged_forward(const at::Tensor& q, const at::Tensor& k,
                                                  const at::Tensor& v,
                                                  const std::vector<AttentionSlice>& slices,
                                                  const SliceForward& forward);

// Merges the attention of `rows` over further keys, y [n, H, K] and l [H, n], into out [T, H, K]
// and lse [H, T], fp32. l may be -inf, where a row sees none of these keys. Undefined `rows` stands
// for all, in order.
void merge_rows(at::Tensor& out, at::Tensor& lse, const at::Tensor& rows, const at::Tensor& y,
                const at::Tensor& l);

// Returns dq, dk and dv, given the values of a slice's rows.
using SliceBackward = std::function<std::tuple<at::Tensor, at::Tensor, at::Tensor>(
    const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const at::Tensor& out, const at::Tensor& lse, const AttentionSlice& slice)>;

// Returns the gradients, summed over the slices in fp32 (fp64 for fp64). Every call gets the MERGED
// out and lse: with p = exp(s - lse) and delta = sum(grad out) of the whole row, ds = p (dp -
// delta) is exact for the slice's keys. With a slice's own out and lse the gradient of the merge
// would be lost.
std::tuple<at::Tensor, at::Tensor, at::Tensor> merged_backward(
    const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const at::Tensor& out, const at::Tensor& lse, const std::vector<AttentionSlice>& slices,
    const SliceBackward& backward);

}  // namespace xrun
