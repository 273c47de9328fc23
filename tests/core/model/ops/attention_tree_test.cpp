// Attention over random trees: against the unfolded sequences, bit for bit in fp32 and in fp64, the
// composed form too.

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/model/ops/allocator.h"
#include "core/model/ops/attention.h"
#include "core/model/ops/attention_op.h"
#include "tests/core/model/ops/pack_tree.h"
#include "tests/error_of.h"
#include "tests/gradient_check.h"
#include "tests/tensor_difference.h"

namespace xrun::attention_tree_test {

namespace {

struct Result {
  at::Tensor out, lse, dq, dk, dv;
};

Result result_of(const Tensors& x, const at::Tensor& grad, const AttentionLayout& layout,
                 bool composed) {
  static const auto forward = find_op<AttentionForward>("xrun::varlen_attention_forward");
  static const auto backward = find_op<AttentionBackward>("xrun::varlen_attention_backward");
  const auto f = [&](auto&&... a) {
    return composed ? attention_forward_composed(a...) : forward.call(a...);
  };
  const auto b = [&](auto&&... a) {
    return composed ? attention_backward_composed(a...) : backward.call(a...);
  };
  auto [out, lse] =
      f(x[0], x[1], x[2], layout.cu_seqlens, kTreeScale, layout.window, layout.parent);
  auto [dq, dk, dv] = b(grad, x[0], x[1], x[2], out, lse, layout.cu_seqlens, kTreeScale,
                        layout.window, layout.parent);
  return {out, lse, dq, dk, dv};
}

// The unfolded sequences in fp64, in plain products. A row that several of them share is a query
// in the first alone; keys of all of them add to the gradients.
Result unfolded(const PackTree& tree, const Tensors& x, const at::Tensor& grad) {
  const int64_t heads = x[0].size(1), groups = x[1].size(1), window = tree.layout.window;
  const at::Tensor all_k = head_copies(x[1], heads), all_v = head_copies(x[2], heads);
  Result sum{at::zeros_like(x[0]), at::zeros({heads, tree.rows()}, at::kDouble),
             at::zeros_like(x[0]), at::zeros_like(all_k), at::zeros_like(all_v)};
  std::vector<bool> done(static_cast<size_t>(tree.rows()), false);
  for (const Numbers& path : tree.paths) {
    size_t shared = 0;
    while (shared < path.size() && done[static_cast<size_t>(path[shared])]) ++shared;
    if (shared == path.size()) continue;
    for (const int64_t row : path) done[static_cast<size_t>(row)] = true;
    const at::Tensor keys = row_index(path);
    const at::Tensor own =
        keys.narrow(0, static_cast<int64_t>(shared), static_cast<int64_t>(path.size() - shared));
    const auto take = [](const at::Tensor& from, const at::Tensor& rows) {
      return from.index_select(0, rows).transpose(0, 1);
    };
    const at::Tensor q = take(x[0], own), k = take(all_k, keys), v = take(all_v, keys);
    const at::Tensor g = take(grad, own);
    const at::Tensor at = at::arange(keys.size(0), at::kLong);
    const at::Tensor distance =
        at.narrow(0, static_cast<int64_t>(shared), own.size(0)).unsqueeze(1).sub(at.unsqueeze(0));
    at::Tensor hidden = distance.lt(0);
    if (window > 0) hidden = hidden.logical_or(distance.ge(window));
    const at::Tensor scores =
        q.matmul(k.transpose(1, 2)).mul_(kTreeScale).masked_fill_(hidden, -1e300);
    const at::Tensor l = scores.logsumexp(-1, true), p = scores.sub_(l).exp_();
    const at::Tensor y = p.matmul(v);
    const at::Tensor ds =
        g.matmul(v.transpose(1, 2)).sub_(g.mul(y).sum(-1, true)).mul_(p).mul_(kTreeScale);
    sum.out.index_copy_(0, own, y.transpose(0, 1));
    sum.lse.index_copy_(1, own, l.squeeze(-1));
    sum.dq.index_copy_(0, own, ds.matmul(k).transpose(0, 1));
    sum.dk.index_add_(0, keys, ds.transpose(1, 2).matmul(q).transpose(0, 1));
    sum.dv.index_add_(0, keys, p.transpose(1, 2).matmul(g).transpose(0, 1));
  }
  return {sum.out, sum.lse, sum.dq, sum_of_copies(sum.dk, groups), sum_of_copies(sum.dv, groups)};
}

Tensors doubles(const Tensors& x) {
  Tensors wide;
  for (const at::Tensor& one : x) wide.push_back(one.to(at::kDouble));
  return wide;
}

// Relative to 1 at least: with a window of one key, gradients of scores are rounding alone.
double relative(const at::Tensor& got, const at::Tensor& wanted) {
  const double size = wanted.numel() == 0 ? 0 : wanted.abs().max().item<double>();
  return largest_difference(got, wanted) / std::max(size, 1.0);
}

void expect_close(const Result& got, const Result& want, double tolerance) {
  EXPECT_LT(relative(got.out, want.out), tolerance);
  EXPECT_LT(relative(got.lse, want.lse), tolerance);
  EXPECT_LT(relative(got.dq, want.dq), tolerance);
  EXPECT_LT(relative(got.dk, want.dk), tolerance);
  EXPECT_LT(relative(got.dv, want.dv), tolerance);
}

// The kernel, and if `dense` the composed form too.
void expect_tree(uint64_t seed, int64_t longest, int64_t leaves, bool dense) {
  const at::NoGradGuard no_grad;
  SCOPED_TRACE(seed);
  TreeMaker maker(seed, longest, leaves);
  const PackTree tree = maker.make();
  const int64_t groups = maker.number(1, 2), heads = groups * maker.number(1, dense ? 3 : 2);
  const int64_t head_dim =
      Numbers{4, 16, 24, 64}[static_cast<size_t>(maker.number(0, dense ? 3 : 2))];
  const Tensors x = attention_inputs(tree.rows(), heads, groups, head_dim, seed);
  const at::Tensor grad = random_tensor(x[0].sizes().vec(), seed + 3);
  const Result got = result_of(x, grad, tree.layout, false);
  EXPECT_TRUE(has_unfolded_bits(tree, x, {got.out, got.lse}));
  const Result want = unfolded(tree, doubles(x), grad.to(at::kDouble));
  expect_close(got, want, 1e-5);
  if (dense)
    expect_close(result_of(doubles(x), grad.to(at::kDouble), tree.layout, true), want, 1e-12);
}

}  // namespace

TEST(AttentionTree, RandomTreesHaveTheBitsOfSequencesAndTheGradientsOfFp64) {
  for (uint64_t seed = 1; seed <= 20; ++seed) expect_tree(seed, 100, 6, true);
}

TEST(AttentionTreeSlow, FiveHundredRandomTreesOfUpTo32Leaves) {
  for (uint64_t seed = 1000; seed < 1500; ++seed) expect_tree(seed, 300, 32, false);
}

// As deep and as wide, of shorter nodes: the composed form computes [H, n, n] scores.
TEST(AttentionTreeSlow, FiveHundredRandomTreesThroughTheComposedForm) {
  for (uint64_t seed = 2000; seed < 2500; ++seed) expect_tree(seed, 16, 32, true);
}

// 16,384 rows, whose [n, n] scores would take 1 GiB per head.
TEST(AttentionTree, MemoryGrowsWithTheRowsNotWithTheirSquare) {
  install_memory_count();
  constexpr int64_t kRoot = 4096, kLeaf = 512, kLeaves = 24, kHeads = 2, kHeadDim = 16;
  AttentionLayout layout{.cu_seqlens = {0, kRoot}, .parent = {-1}};
  for (int64_t leaf = 0; leaf < kLeaves; ++leaf) {
    layout.cu_seqlens.push_back(layout.cu_seqlens.back() + kLeaf);
    layout.parent.push_back(0);
  }
  const int64_t rows = layout.cu_seqlens.back();
  Tensors x;
  for (const at::Tensor& one : attention_inputs(rows, kHeads, 1, kHeadDim, 1)) {
    x.push_back(one.clone().set_requires_grad(true));
  }
  const int64_t before = memory_count().held;
  reset_memory_peak();
  tree_attention(x, layout).out.sum().backward();
  const int64_t peak = memory_count().peak - before;
  const int64_t query_bytes = rows * kHeads * kHeadDim * 4;
  EXPECT_GT(peak, query_bytes);
  EXPECT_LT(peak, 16 * query_bytes) << peak / 1e6 << " MB";
}

TEST(AttentionTree, GradientsOfLossesOverSequencesAddUp) {
  for (uint64_t seed = 50; seed < 54; ++seed) {
    SCOPED_TRACE(seed);
    const PackTree tree = TreeMaker(seed, 30, 4).make();
    Tensors folded, unfolded;
    for (const at::Tensor& one : doubles(attention_inputs(tree.rows(), 4, 2, 8, seed))) {
      folded.push_back(one.clone().set_requires_grad(true));
      unfolded.push_back(one.clone().set_requires_grad(true));
    }
    const AttentionResult all = tree_attention(folded, tree.layout);
    at::Tensor loss = all.out.sum() * 0, wanted = loss.detach();
    for (const Numbers& path : tree.paths) {
      const AttentionResult one = path_attention(unfolded, path, tree.layout.window);
      const at::Tensor rows = row_index(path);
      const at::Tensor c = random_tensor(one.out.sizes().vec(), seed + 1).to(at::kDouble);
      const at::Tensor e = random_tensor(one.lse.sizes().vec(), seed + 2).to(at::kDouble);
      loss = loss + (all.out.index_select(0, rows) * c).sum() +
             (all.lse.index_select(1, rows) * e).sum();
      wanted = wanted + (one.out * c).sum() + (one.lse * e).sum();
    }
    EXPECT_LT(largest_difference(loss, wanted), 1e-9);
    loss.backward();
    wanted.backward();
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_LT(relative(folded[i].grad(), unfolded[i].grad()), 1e-12) << i;
    }
  }
}

// The first rows of a tree are held: their keys and values are given apart, and they have no query.
TEST(AttentionTree, SlowRowsAfterHeldKeysHaveTheBitsAndGradientsOfTheWholePack) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (const auto type : {at::kFloat, at::kDouble}) {
      SCOPED_TRACE(fmt::format("seed {} {}", seed, c10::toString(type)));
      TreeMaker maker(seed, 100, 6);
      const PackTree tree = maker.make();
      if (tree.rows() < 2) continue;
      const int64_t held = maker.number(1, tree.rows() - 1), rows = tree.rows() - held;
      Tensors x, leaves;
      for (const at::Tensor& one : attention_inputs(tree.rows(), 4, 2, 24, seed))
        x.push_back(one.to(type));
      const auto leaf = [&](const at::Tensor& one) {
        return leaves.emplace_back(one.clone().set_requires_grad(true));
      };
      const HeldKeys keys{leaf(x[1].narrow(0, 0, held)), leaf(x[2].narrow(0, 0, held))};
      const at::Tensor q = leaf(x[0].narrow(0, held, rows)), k = leaf(x[1].narrow(0, held, rows)),
                       v = leaf(x[2].narrow(0, held, rows));
      const at::Tensor out = varlen_attention(q, k, v, keys, tree.layout, kTreeScale);
      const at::Tensor grad = random_tensor(x[0].sizes().vec(), seed + 3).to(type);
      grad.narrow(0, 0, held).zero_();
      const Result want = result_of(x, grad, tree.layout, false);
      EXPECT_TRUE(out.equal(want.out.narrow(0, held, rows)));
      out.backward(grad.narrow(0, held, rows));
      const double tolerance = type == at::kFloat ? 1e-5 : 1e-12;
      EXPECT_LT(relative(q.grad(), want.dq.narrow(0, held, rows)), tolerance);
      EXPECT_LT(relative(at::cat({keys.k.grad(), k.grad()}), want.dk), tolerance);
      EXPECT_LT(relative(at::cat({keys.v.grad(), v.grad()}), want.dv), tolerance);
    }
  }
}

TEST(AttentionTree, HeldKeysOfOtherSizesAreRefused) {
  const Tensors x = attention_inputs(10, 4, 2, 8, 1);
  const auto refused = [&](int64_t held, int64_t groups, int64_t rows) {
    const HeldKeys keys{x[1].narrow(0, 0, held).narrow(1, 0, groups), x[2].narrow(0, 0, held)};
    return message_of<Error>([&] {
      varlen_attention(x[0].narrow(0, 0, rows), x[1].narrow(0, 0, rows), x[2].narrow(0, 0, rows),
                       keys, {{0, 10}}, kTreeScale);
    });
  };
  EXPECT_EQ(refused(4, 1, 6), "varlen_attention: held k is [4, 1, 8], wanted [4, 2, 8]");
  EXPECT_EQ(
      refused(4, 2, 5),
      "varlen_attention: cu_seqlens[1] is 10, wanted a number from 0, the boundary before it, "
      "to 9, the number of rows");
}

TEST(AttentionTree, BitsDoNotDependOnTheNumberOfThreads) {
  const at::NoGradGuard no_grad;
  const int before = at::get_num_threads();
  const PackTree tree = small_pack_tree();
  const Tensors x = attention_inputs(tree.rows(), 6, 2, 64, 4);
  const at::Tensor grad = random_tensor(x[0].sizes().vec(), 7);
  std::vector<Result> results;
  for (const int threads : {1, 2, 1, 3}) {
    at::set_num_threads(threads);
    results.push_back(result_of(x, grad, tree.layout, false));
  }
  at::set_num_threads(before);
  for (const Result& other : results) {
    EXPECT_TRUE(other.out.equal(results[0].out));
    EXPECT_TRUE(other.lse.equal(results[0].lse));
    EXPECT_TRUE(other.dq.equal(results[0].dq));
    EXPECT_TRUE(other.dk.equal(results[0].dk));
    EXPECT_TRUE(other.dv.equal(results[0].dv));
  }
}

TEST(AttentionTree, HalfPrecisionFoldsWithoutLossToo) {
  const at::NoGradGuard no_grad;
  const PackTree tree = small_pack_tree();
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    Tensors x;
    for (const at::Tensor& one : attention_inputs(tree.rows(), 4, 2, 40, 9))
      x.push_back(one.to(type));
    const at::Tensor grad = random_tensor(x[0].sizes().vec(), 8).to(type);
    const Result got = result_of(x, grad, tree.layout, false);
    EXPECT_TRUE(has_unfolded_bits(tree, x, {got.out, got.lse}));
    expect_close(got, unfolded(tree, doubles(x), grad.to(at::kDouble)), 1e-2);
  }
}

}  // namespace xrun::attention_tree_test
