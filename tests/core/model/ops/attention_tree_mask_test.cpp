// Wrong masks and positions in attention over trees are noticed.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include "core/model/ops/attention.h"
#include "core/model/ops/rope.h"
#include "tests/core/model/ops/pack_tree.h"
#include "tests/tensor_difference.h"

namespace xrun::attention_tree_mask_test {

TEST(AttentionTree, ASiblingThatIsVisibleIsNoticed) {
  const at::NoGradGuard no_grad;
  PackTree tree = small_pack_tree();
  const Tensors x = attention_inputs(tree.rows(), 2, 1, 16, 3);
  EXPECT_TRUE(has_unfolded_bits(tree, x, tree_attention(x, tree.layout)));
  tree.layout.parent = {-1, 0, 1, 2, 0};  // the third node now sees its sibling
  EXPECT_FALSE(has_unfolded_bits(tree, x, tree_attention(x, tree.layout)));
  tree.layout.parent = {-1, 0, 1, 1, 1};
  EXPECT_FALSE(has_unfolded_bits(tree, x, tree_attention(x, tree.layout)));
}

TEST(AttentionTree, FlatPositionsAreNoticed) {
  const at::NoGradGuard no_grad;
  const PackTree tree = small_pack_tree();
  const Tensors plain = attention_inputs(tree.rows(), 2, 1, 16, 3);
  const auto rotated = [&](const at::Tensor& position) {
    const RopeAngles angles = rope_angles({}, 16, {position, {0, tree.rows()}}, at::kFloat);
    return Tensors{rope(plain[0], angles), rope(plain[1], angles), plain[2]};
  };
  const auto matches = [&](const at::Tensor& position) {
    const AttentionResult folded = tree_attention(rotated(position), tree.layout);
    for (const Numbers& path : tree.paths) {
      const at::Tensor rows = row_index(path);
      const auto n = static_cast<int64_t>(path.size());
      const RopeAngles angles = rope_angles({}, 16, {at::arange(n, at::kLong), {0, n}}, at::kFloat);
      const at::Tensor one = varlen_attention(rope(plain[0].index_select(0, rows), angles),
                                              rope(plain[1].index_select(0, rows), angles),
                                              plain[2].index_select(0, rows), {{0, n}}, kTreeScale);
      if (!folded.out.index_select(0, rows).equal(one)) return false;
    }
    return true;
  };
  at::Tensor path_position = at::arange(tree.rows(), at::kLong);
  for (const Numbers& path : tree.paths) {
    path_position.index_copy_(0, row_index(path),
                              at::arange(static_cast<int64_t>(path.size()), at::kLong));
  }
  EXPECT_TRUE(matches(path_position));
  EXPECT_FALSE(matches(at::arange(tree.rows(), at::kLong)));
}

TEST(AttentionTree, AWindowByFlatDistanceIsNoticed) {
  const at::NoGradGuard no_grad;
  constexpr int64_t kWindow = 60;
  const PackTree tree = small_pack_tree(kWindow);
  const Tensors x = attention_inputs(tree.rows(), 1, 1, 16, 3);
  // Dense, with a given distance between rows: on the path, or in the pack.
  const auto dense = [&](bool flat) {
    at::Tensor mask = at::zeros_like(x[0].select(1, 0).matmul(x[1].select(1, 0).t()));
    mask.fill_(-1e30);
    float* const at = mask.mutable_data_ptr<float>();
    for (const Numbers& path : tree.paths) {
      for (size_t i = 0; i < path.size(); ++i) {
        for (size_t j = 0; j <= i; ++j) {
          const int64_t distance = flat ? path[i] - path[j] : static_cast<int64_t>(i - j);
          if (distance < kWindow) at[path[i] * tree.rows() + path[j]] = 0;
        }
      }
    }
    const at::Tensor scores = x[0].select(1, 0).matmul(x[1].select(1, 0).t()) * kTreeScale;
    return at::softmax(scores + mask, -1).matmul(x[2].select(1, 0)).unsqueeze(1);
  };
  const AttentionResult got = tree_attention(x, tree.layout);
  EXPECT_TRUE(has_unfolded_bits(tree, x, got));
  EXPECT_LT(largest_difference(got.out, dense(false)), 1e-5);
  EXPECT_GT(largest_difference(got.out, dense(true)), 1e-2);
}

}  // namespace xrun::attention_tree_mask_test
