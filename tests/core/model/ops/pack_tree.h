#pragma once
// Trees of packs for tests of attention, and the attention of their sequences alone.

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <random>
#include <vector>

#include "core/model/ops/attention.h"
#include "tests/gradient_check.h"

namespace xrun {

using Numbers = std::vector<int64_t>;
using Tensors = std::vector<at::Tensor>;

constexpr double kTreeScale = 0.3;

struct PackTree {
  AttentionLayout layout{.cu_seqlens = {0}};
  std::vector<Numbers> paths;  // rows of the pack from a root to each leaf

  int64_t rows() const { return layout.cu_seqlens.back(); }
};

// Packs of one to three trees of up to six levels.
class TreeMaker {
 public:
  TreeMaker(uint64_t seed, int64_t longest, int64_t leaves)
      : random_(seed), longest_(longest), leaves_(leaves) {}

  PackTree make() {
    PackTree tree;
    for (int64_t roots = number(1, 3); roots > 0; --roots) add_node(tree, -1, {}, 1);
    if (number(0, 2) == 0) tree.layout.window = number(1, longest_);
    return tree;
  }

  int64_t number(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

 private:
  // Mostly short, so that blocks of keys span several nodes; sometimes empty.
  int64_t length() {
    const int64_t kind = number(0, 7);
    if (kind == 0) return 0;
    return number(1, kind < 5 ? std::min<int64_t>(longest_, 40) : longest_);
  }

  void add_node(PackTree& tree, int64_t parent, Numbers path, int depth) {
    const auto self = static_cast<int64_t>(tree.layout.parent.size());
    const int64_t begin = tree.rows(), end = begin + length();
    tree.layout.parent.push_back(parent);
    tree.layout.cu_seqlens.push_back(end);
    for (int64_t row = begin; row < end; ++row) path.push_back(row);
    int64_t children = depth < 6 && leaves_ > 1 ? number(0, 4) : 0;
    if (children == 0) {
      --leaves_;
      tree.paths.push_back(path);
    }
    for (; children > 0; --children) add_node(tree, self, path, depth + 1);
  }

  std::mt19937_64 random_;
  int64_t longest_, leaves_;
};

// A prompt of 70 over two answers of 50, of which the first has two ends.
inline PackTree small_pack_tree(int64_t window = 0) {
  PackTree tree;
  tree.layout = {{0, 70, 120, 130, 145, 195}, {-1, 0, 1, 1, 0}, window};
  const auto range = [](Numbers path, int64_t from, int64_t to) {
    for (; from < to; ++from) path.push_back(from);
    return path;
  };
  const Numbers prompt = range({}, 0, 70), first = range(prompt, 70, 120);
  tree.paths = {range(first, 120, 130), range(first, 130, 145), range(prompt, 145, 195)};
  return tree;
}

// q [rows, heads, K], k and v [rows, groups, K], fp32.
inline Tensors attention_inputs(int64_t rows, int64_t heads, int64_t groups, int64_t head_dim,
                                uint64_t seed) {
  return {random_tensor({rows, heads, head_dim}, seed, 2.0),
          random_tensor({rows, groups, head_dim}, seed + 1, 2.0),
          random_tensor({rows, groups, head_dim}, seed + 2)};
}

inline at::Tensor row_index(const Numbers& rows) { return at::tensor(rows, at::dtype(at::kLong)); }

// The attention of one path as a separate sequence, of rows [n, ...] of x.
inline AttentionResult path_attention(const Tensors& x, const Numbers& path, int64_t window) {
  const at::Tensor rows = row_index(path);
  const AttentionLayout segment{{0, static_cast<int64_t>(path.size())}, {}, window};
  return varlen_attention_lse(x[0].index_select(0, rows), x[1].index_select(0, rows),
                              x[2].index_select(0, rows), segment, kTreeScale);
}

// Returns true if every token has the bits that it has in its sequences alone.
inline bool has_unfolded_bits(const PackTree& tree, const Tensors& x,
                              const AttentionResult& folded) {
  for (const Numbers& path : tree.paths) {
    const AttentionResult one = path_attention(x, path, tree.layout.window);
    const at::Tensor rows = row_index(path);
    if (!folded.out.index_select(0, rows).equal(one.out)) return false;
    if (!folded.lse.index_select(1, rows).equal(one.lse)) return false;
  }
  return true;
}

inline AttentionResult tree_attention(const Tensors& x, const AttentionLayout& layout) {
  return varlen_attention_lse(x[0], x[1], x[2], layout, kTreeScale);
}

}  // namespace xrun
