// Trees by calls per level: the merged result against the dense form, in fp64, and the two mistakes
// that give the right loss with wrong gradients.

#include "core/model/ops/attention_slices.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/index_copy.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/gradient_check.h"
#include "tests/tensor_difference.h"

namespace xrun::attention_slices_test {

namespace {

constexpr double kScale = 0.4;
constexpr int64_t kHeads = 4, kGroups = 2, kWidth = 6;

// Two trees, with an empty inner node, a branch below it, and a leaf of one row.
const std::vector<int64_t> kNodes = {0, 5, 9, 9, 12, 13, 20, 24, 27, 30};
const std::vector<int64_t> kParent = {-1, 0, 0, 2, 2, 4, -1, 6, 6};

// A segment as [H, n, K], key heads repeated.
at::Tensor heads_of(const at::Tensor& x, int64_t begin, int64_t end) {
  return head_copies(x, kHeads).slice(0, begin, end).permute({1, 0, 2});
}

template <class F>
void each_pair(const AttentionSlice& slice, F f) {
  const auto border = [](const PackBorders& pack, int64_t i) {
    return pack.cu_seqlens[i].item<int64_t>();
  };
  EXPECT_EQ(slice.queries.count, slice.keys.count);
  for (int64_t i = 0; i < slice.queries.count; ++i) {
    f(border(slice.queries, i), border(slice.queries, i + 1), border(slice.keys, i),
      border(slice.keys, i + 1));
  }
}

at::Tensor slice_scores(const at::Tensor& q, const at::Tensor& k, bool causal) {
  at::Tensor scores = at::matmul(q, k.transpose(1, 2)) * kScale;
  if (causal) scores = scores - at::ones({q.size(1), k.size(1)}, q.options()).triu(1) * 1e30;
  return scores;
}

// The library calls, in plain products; differentiable by autograd.
std::tuple<at::Tensor, at::Tensor> dense_forward(const at::Tensor& q, const at::Tensor& k,
                                                 const at::Tensor& v, const AttentionSlice& slice) {
  std::vector<at::Tensor> outs, lses;
  each_pair(slice, [&](int64_t q0, int64_t q1, int64_t k0, int64_t k1) {
    const at::Tensor s = slice_scores(heads_of(q, q0, q1), heads_of(k, k0, k1), slice.causal);
    const at::Tensor l = at::logsumexp(s, -1, true);
    outs.push_back(at::matmul((s - l).exp(), heads_of(v, k0, k1)).permute({1, 0, 2}));
    lses.push_back(l.squeeze(-1));
  });
  return {at::cat(outs, 0), at::cat(lses, 1)};
}

using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;  // dq, dk, dv

Gradients dense_backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                         const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse,
                         const AttentionSlice& slice) {
  std::vector<at::Tensor> dq, dk, dv;
  each_pair(slice, [&](int64_t q0, int64_t q1, int64_t k0, int64_t k1) {
    const at::Tensor qs = heads_of(q, q0, q1), ks = heads_of(k, k0, k1), g = heads_of(grad, q0, q1);
    const at::Tensor p =
        (slice_scores(qs, ks, slice.causal) - lse.slice(1, q0, q1).unsqueeze(2)).exp();
    const at::Tensor delta = (g * heads_of(out, q0, q1)).sum(-1, true);
    const at::Tensor ds = p * (at::matmul(g, heads_of(v, k0, k1).transpose(1, 2)) - delta) * kScale;
    dq.push_back(at::matmul(ds, ks).permute({1, 0, 2}));
    dk.push_back(at::matmul(ds.transpose(1, 2), qs).permute({1, 0, 2}));
    dv.push_back(at::matmul(p.transpose(1, 2), g).permute({1, 0, 2}));
  });
  return {at::cat(dq, 0), sum_of_copies(at::cat(dk, 0).contiguous(), kGroups),
          sum_of_copies(at::cat(dv, 0).contiguous(), kGroups)};
}

at::Tensor wide(std::vector<int64_t> sizes, uint64_t seed) {
  return random_tensor(std::move(sizes), seed, 2.0).to(at::kDouble);
}

// The relative differences of dq, dk and dv.
std::array<double, 3> differences(const Gradients& got, const Gradients& wanted) {
  return {relative_difference(std::get<0>(got), std::get<0>(wanted)),
          relative_difference(std::get<1>(got), std::get<1>(wanted)),
          relative_difference(std::get<2>(got), std::get<2>(wanted))};
}

class AttentionSlices : public testing::Test {
 protected:
  const at::Tensor q_ = wide({30, kHeads, kWidth}, 1), k_ = wide({30, kGroups, kWidth}, 2),
                   v_ = wide({30, kGroups, kWidth}, 3), grad_ = wide({30, kHeads, kWidth}, 4);
  const std::vector<AttentionSlice> slices_ =
      *attention_slices(*layout_paths(kNodes, kParent), c10::kCPU);
};

}  // namespace

TEST_F(AttentionSlices, OneCallALevelAfterTheNodes) {
  ASSERT_EQ(slices_.size(), 3u);  // the middle level has an empty inner node alone
  EXPECT_TRUE(slices_[0].causal);
  EXPECT_FALSE(slices_[1].causal);
  EXPECT_EQ(slices_[1].query_rows.size(0), 15 + 6);
  EXPECT_EQ(slices_[1].key_rows.size(0), 5 + 4);
  EXPECT_EQ(slices_[2].query_rows.size(0), 7);
  EXPECT_EQ(slices_[2].key_rows.size(0), 1);
  EXPECT_EQ(attention_slices(*layout_paths(kNodes, {}), c10::kCPU)->size(), 1u);
}

TEST_F(AttentionSlices, MergedOutputsAndGradientsMatchTheDenseForm) {
  const auto [out, lse] = merged_forward(q_, k_, v_, slices_, dense_forward);
  const auto [want, want_lse] = attention_forward_composed(q_, k_, v_, kNodes, kScale, 0, kParent);
  EXPECT_LT(relative_difference(out, want), 1e-13);
  EXPECT_LT(relative_difference(lse, want_lse), 1e-13);
  const auto got = merged_backward(grad_, q_, k_, v_, out, lse, slices_, dense_backward);
  const auto wanted =
      attention_backward_composed(grad_, q_, k_, v_, want, want_lse, kNodes, kScale, 0, kParent);
  for (const double difference : differences(got, wanted)) EXPECT_LT(difference, 1e-12);
}

TEST_F(AttentionSlices, TheBackwardOfASlicesOwnOutputIsWrong) {
  const auto [out, lse] = merged_forward(q_, k_, v_, slices_, dense_forward);
  const auto own = [](const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                      const at::Tensor& v, const at::Tensor&, const at::Tensor&,
                      const AttentionSlice& slice) {
    const auto [y, l] = dense_forward(q, k, v, slice);
    return dense_backward(grad, q, k, v, y, l, slice);
  };
  const auto got = merged_backward(grad_, q_, k_, v_, out, lse, slices_, own);
  const auto wanted =
      attention_backward_composed(grad_, q_, k_, v_, out, lse, kNodes, kScale, 0, kParent);
  for (const double difference : differences(got, wanted)) EXPECT_GT(difference, 1e-2);
}

// Autograd through the merge is exact with the log-sum-exps in the graph, and wrong without.
TEST_F(AttentionSlices, ADetachedLogSumExpGivesTheRightLossAndTheWrongGradient) {
  const auto [want, want_lse] = attention_forward_composed(q_, k_, v_, kNodes, kScale, 0, kParent);
  const at::Tensor wanted = std::get<0>(
      attention_backward_composed(grad_, q_, k_, v_, want, want_lse, kNodes, kScale, 0, kParent));
  for (const bool detached : {false, true}) {
    const at::Tensor q = q_.clone().set_requires_grad(true);
    at::Tensor out, lse;
    for (const AttentionSlice& slice : slices_) {
      const auto rows = [&](const at::Tensor& x, const at::Tensor& index) {
        return index.defined() ? x.index_select(0, index) : x;
      };
      auto [y, l] = dense_forward(rows(q, slice.query_rows), rows(k_, slice.key_rows),
                                  rows(v_, slice.key_rows), slice);
      if (detached) l = l.detach();
      if (!out.defined()) {
        out = y, lse = l;
        continue;
      }
      const at::Tensor before = lse.index_select(1, slice.query_rows);
      const at::Tensor both = at::logaddexp(before, l);
      const auto share = [&](const at::Tensor& one) { return (one - both).exp().t().unsqueeze(2); };
      const at::Tensor mixed = out.index_select(0, slice.query_rows) * share(before) + y * share(l);
      out = at::index_copy(out, 0, slice.query_rows, mixed);
      lse = at::index_copy(lse, 1, slice.query_rows, both);
    }
    EXPECT_LT(relative_difference(out, want), 1e-13);
    out.backward(grad_);
    if (detached) {
      EXPECT_GT(relative_difference(q.grad(), wanted), 1e-2);
    } else {
      EXPECT_LT(relative_difference(q.grad(), wanted), 1e-12);
    }
  }
}

}  // namespace xrun::attention_slices_test
