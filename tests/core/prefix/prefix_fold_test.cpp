// The fold of one prompt has the layout and the mask of NeMo Automodel.

#include "core/prefix/prefix_fold.h"

#include <gtest/gtest.h>

#include <string>

#include "core/base/philox.h"
#include "tests/scratch_folder.h"

namespace xrun::prefix_fold_test {
namespace {

using List = std::vector<int64_t>;
using Lists = std::vector<List>;

// "[2,4)[0,2)F"
std::string text_of(const TreeSlices& slices) {
  std::string text;
  for (size_t i = 0; i < slices.types.size(); ++i) {
    const auto& [q0, q1] = slices.q_ranges[i];
    const auto& [k0, k1] = slices.k_ranges[i];
    text += fmt::format("[{},{})[{},{}){} ", q0, q1, k0, k1, slices.types[i] == "full" ? "F" : "C");
  }
  return text;
}

TEST(FoldSharedPrefix, GivesTheLayoutOfTheWorkedExample) {
  const FoldedRollouts folded = fold_shared_prefix({{1, 2}, {{10, 11}, {20, 21, 22}}});
  EXPECT_EQ(folded.input_ids, (List{1, 2, 10, 11, 20, 21, 22}));
  EXPECT_EQ(folded.labels, (List{-100, -100, 11, -100, 21, 22, -100}));
  EXPECT_EQ(folded.position_ids, (List{0, 1, 2, 3, 2, 3, 4}));
  EXPECT_EQ(folded.node_lengths, (List{2, 2, 3}));
  EXPECT_EQ(folded.sample_paths, (Lists{{0, 1}, {0, 2}}));
  const TreeSlices slices = tree_slices(folded.node_lengths, folded.sample_paths);
  EXPECT_EQ(text_of(slices), "[0,2)[0,2)C [2,4)[2,4)C [2,4)[0,2)F [4,7)[4,7)C [4,7)[0,2)F ");
  EXPECT_EQ(slices.sample_token_ranges,
            (std::vector<std::vector<TokenRange>>{{{0, 2}, {2, 4}}, {{0, 2}, {4, 7}}}));
}

TEST(FoldSharedPrefix, TakesASingleCompletion) {
  const FoldedRollouts folded = fold_shared_prefix({{5, 6, 7}, {{8, 9}}});
  EXPECT_EQ(folded.input_ids, (List{5, 6, 7, 8, 9}));
  EXPECT_EQ(folded.labels, (List{-100, -100, -100, 9, -100}));
  EXPECT_EQ(folded.position_ids, (List{0, 1, 2, 3, 4}));
  EXPECT_EQ(folded.sample_paths, (Lists{{0, 1}}));
}

TEST(FoldSharedPrefix, AnEmptyPromptStaysAsANodeInNoPath) {
  const FoldedRollouts folded = fold_shared_prefix({{}, {{1, 2, 3}, {4, 5}}});
  EXPECT_EQ(folded.position_ids, (List{0, 1, 2, 0, 1}));
  EXPECT_EQ(folded.labels, (List{2, 3, -100, 5, -100}));
  EXPECT_EQ(folded.node_lengths, (List{0, 3, 2}));
  EXPECT_EQ(folded.sample_paths, (Lists{{1}, {2}}));
  EXPECT_EQ(text_of(tree_slices(folded.node_lengths, folded.sample_paths)),
            "[0,3)[0,3)C [3,5)[3,5)C ");
}

TEST(FoldSharedPrefix, LeavesEqualCompletionsApart) {
  const FoldedRollouts folded = fold_shared_prefix({{1}, {{7, 8}, {7, 8}}});
  EXPECT_EQ(folded.input_ids, (List{1, 7, 8, 7, 8}));
  EXPECT_EQ(folded.node_lengths, (List{1, 2, 2}));
}

TEST(FoldSharedPrefix, TakesAnIgnoreIndex) {
  EXPECT_EQ(fold_shared_prefix({{1}, {{2, 3}, {4}}}, -1).labels, (List{-1, 3, -1, -1}));
}

TEST(FoldSharedPrefix, RefusesEmptyCompletions) {
  EXPECT_EQ(error_of([] {
              fold_shared_prefix({{1, 2}, {}});
            }),
            "completions must be non-empty (need at least one rollout).");
  EXPECT_EQ(error_of([] {
              fold_shared_prefix({{1, 2}, {{3}, {}}});
            }),
            "every completion must be non-empty.");
}

TEST(CollateGroups, TakesExactlyOneGroup) {
  const std::vector<RolloutGroup> two(2, RolloutGroup{{1}, {{2, 3}}});
  EXPECT_EQ(collate_groups(std::span(two).first(1)).input_ids, (List{1, 2, 3}));
  EXPECT_EQ(error_of([&] { collate_groups(two); }),
            "prefix_tree_collate_fn supports local_batch_size=1 only, got 2 groups.");
  EXPECT_EQ(error_of([] { collate_groups({}); }),
            "prefix_tree_collate_fn supports local_batch_size=1 only, got 0 groups.");
}

TEST(TreeSlices, EmitTheSquareOfASharedRootOnce) {
  const Lists paths = {{0, 1}, {0, 2}};
  EXPECT_EQ(text_of(tree_slices(List{4, 2, 3}, paths)),
            "[0,4)[0,4)C [4,6)[4,6)C [4,6)[0,4)F [6,9)[6,9)C [6,9)[0,4)F ");
}

TEST(TreeSlices, TakeAnyDepth) {
  const Lists paths = {{0, 1, 2}, {0, 1, 3}, {0, 4}, {0}};
  const TreeSlices slices = tree_slices(List{1, 2, 3, 4, 5}, paths);
  EXPECT_EQ(text_of(slices),
            "[0,1)[0,1)C [1,3)[1,3)C [1,3)[0,1)F [3,6)[3,6)C [3,6)[0,1)F [3,6)[1,3)F "
            "[6,10)[6,10)C [6,10)[0,1)F [6,10)[1,3)F [10,15)[10,15)C [10,15)[0,1)F ");
  EXPECT_EQ(slices.sample_token_ranges[3], (std::vector<TokenRange>{{0, 1}}));
}

TEST(TreeSlices, OfEmptyNodesAreEmittedOncePerRange) {
  const Lists paths = {{0, 1}, {0, 2}};
  EXPECT_EQ(text_of(tree_slices(List{2, 0, 0}, paths)), "[0,2)[0,2)C [2,2)[2,2)C [2,2)[0,2)F ");
}

// The number of slices over each (q, k), [T * T].
std::vector<int> cover_of(const TreeSlices& slices, int64_t T) {
  std::vector<int> cover(static_cast<size_t>(T * T), 0);
  for (size_t i = 0; i < slices.types.size(); ++i) {
    const auto& [q0, q1] = slices.q_ranges[i];
    const auto& [k0, k1] = slices.k_ranges[i];
    for (int64_t q = q0; q < q1; ++q) {
      // Causal is aligned at the bottom right: the last query sees every key.
      const int64_t last = slices.types[i] == "full" ? k1 : k1 - (q1 - 1 - q);
      for (int64_t k = k0; k < last; ++k) ++cover[static_cast<size_t>(q * T + k)];
    }
  }
  return cover;
}

// Nodes of any order and depth, some of them empty, some in no path.
TEST(TreeSlices, CoverTheMaskOfRandomTreesExactlyOnce) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    uint64_t draw = 0;
    const auto below = [&](int64_t n) {
      return static_cast<int64_t>(philox_u64(seed, 41, 0, draw++) % static_cast<uint64_t>(n));
    };
    const int64_t nodes = 1 + below(12);
    List lengths, owner, parent(static_cast<size_t>(nodes), -1);
    for (int64_t n = 0; n < nodes; ++n) {
      lengths.push_back(below(6));
      owner.insert(owner.end(), static_cast<size_t>(lengths.back()), n);
    }
    // The tree is made of numbers in a random order, so that a parent may be the later node.
    List order;
    for (int64_t n = 0; n < nodes; ++n) order.insert(order.begin() + below(n + 1), n);
    for (int64_t i = 1; i < nodes; ++i) {
      const int64_t above = below(i + 1) - 1;
      if (above < 0) continue;  // a root
      parent[static_cast<size_t>(order[static_cast<size_t>(i)])] =
          order[static_cast<size_t>(above)];
    }
    Lists paths;
    std::vector<bool> on_path(static_cast<size_t>(nodes), false);
    for (int64_t n = 0; n < nodes; ++n) {
      if (below(3) == 0) continue;
      List& path = paths.emplace_back();
      for (int64_t v = n; v >= 0; v = parent[static_cast<size_t>(v)]) {
        path.insert(path.begin(), v);
        on_path[static_cast<size_t>(v)] = true;
      }
    }
    const int64_t T = std::ssize(owner);
    const std::vector<int> cover = cover_of(tree_slices(lengths, paths), T);
    for (int64_t q = 0; q < T; ++q) {
      for (int64_t k = 0; k < T; ++k) {
        const int64_t of_q = owner[static_cast<size_t>(q)], of_k = owner[static_cast<size_t>(k)];
        bool visible = on_path[static_cast<size_t>(of_q)] && of_q == of_k && k <= q;
        int64_t v = parent[static_cast<size_t>(of_q)];
        for (; v >= 0 && on_path[static_cast<size_t>(of_q)]; v = parent[static_cast<size_t>(v)]) {
          visible |= v == of_k;
        }
        ASSERT_EQ(cover[static_cast<size_t>(q * T + k)], visible ? 1 : 0)
            << "seed " << seed << ", query " << q << ", key " << k;
      }
    }
  }
}

// The group of Automodel's test of attention; the mask follows from the completions alone.
TEST(TreeSlices, CoverTheMaskOfAPromptAndThreeCompletions) {
  RolloutGroup group{List(48, 1), {List(16, 2), List(24, 3), List(8, 4)}};
  const FoldedRollouts folded = fold_shared_prefix(group);
  const int64_t T = std::ssize(folded.input_ids);
  ASSERT_EQ(T, 96);
  const std::vector<int> cover = cover_of(tree_slices(folded.node_lengths, folded.sample_paths), T);
  for (size_t q = 0; q < folded.input_ids.size(); ++q) {
    for (size_t k = 0; k < folded.input_ids.size(); ++k) {
      const int64_t of_k = folded.input_ids[k];
      const bool visible = k <= q && (of_k == 1 || of_k == folded.input_ids[q]);
      ASSERT_EQ(cover[q * static_cast<size_t>(T) + k], visible ? 1 : 0) << q << " " << k;
    }
  }
}

TEST(TreeSlices, NameFieldIndexAndValueOfBadInput) {
  const auto error = [](const List& lengths, const Lists& paths) {
    return error_of([&] { tree_slices(lengths, paths); });
  };
  EXPECT_EQ(error({1, -3}, {{0}}), "tree_slices: node_lengths[1] is -3, wanted at least 0");
  EXPECT_EQ(error({int64_t{1} << 30, int64_t{1} << 30}, {{0}}),
            "tree_slices: node_lengths[1] is 1073741824, after 1073741824 tokens; the maximum is "
            "2^31 - 1");
  EXPECT_EQ(error({1}, {{0}, {}}), "tree_slices: sample_paths[1] has no nodes");
  EXPECT_EQ(error({1, 2}, {{0, 2}}),
            "tree_slices: sample_paths[0][1] is 2, node_lengths has 2 entries");
  EXPECT_EQ(error({1, 2}, {{-1}}),
            "tree_slices: sample_paths[0][0] is -1, node_lengths has 2 entries");
  EXPECT_EQ(
      error({1, 2, 3}, {{0, 2}, {1, 2}}),
      "tree_slices: sample_paths[1][1] is node 2, here below node 1 but earlier below node 0; "
      "a node has one parent");
  EXPECT_EQ(error({1, 2}, {{0, 1}, {1, 0}}),
            "tree_slices: sample_paths[1][0] is node 1, here a root but earlier below node 0; a "
            "node has one parent");
  EXPECT_EQ(error({1, 2}, {{0, 1, 0}}),
            "tree_slices: sample_paths[0][2] is node 0, here below node 1 but earlier a root; a "
            "node has one parent");
  EXPECT_EQ(error({1, 2}, {{0, 0}}),
            "tree_slices: sample_paths[0][1] is node 0, here below node 0 but earlier a root; a "
            "node has one parent");
  List chain(6000), ones(6000, 1);
  for (size_t n = 0; n < chain.size(); ++n) chain[n] = static_cast<int64_t>(n);
  EXPECT_EQ(error(ones, {chain}), "tree_slices: 18003000 slices, the maximum is 16777216");
}

}  // namespace
}  // namespace xrun::prefix_fold_test
