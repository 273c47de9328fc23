// Layouts of attention: what a tree implies for its nodes, and the errors for one that is none.

#include "core/model/ops/attention_layout.h"

#include <gtest/gtest.h>

#include <string>

#include "core/base/error.h"

namespace xrun::attention_layout_test {

namespace {

using Numbers = std::vector<int64_t>;

std::string refusal(const Numbers& cu_seqlens, const Numbers& parent, int64_t rows,
                    int64_t window = 0) {
  try {
    check_layout("op", cu_seqlens, parent, window, rows);
    return "none";
  } catch (const Error& error) {
    return error.what();
  }
}

// Four samples: [a b] over [c][f] with [d e] and [g h] with [i][j k l].
const Numbers kNodes = {0, 2, 3, 5, 6, 8, 9, 12}, kParent = {-1, 0, 1, 0, 0, 4, 4};

}  // namespace

TEST(AttentionLayout, NodesKnowTheirPositionAndTheEndOfTheirSubtree) {
  check_layout("op", kNodes, kParent, 0, 12);
  const auto paths = layout_paths(kNodes, kParent);
  EXPECT_EQ(paths->position, (Numbers{0, 2, 3, 2, 2, 4, 4}));
  EXPECT_EQ(paths->end, (Numbers{12, 5, 5, 6, 12, 9, 12}));
  EXPECT_EQ(paths->roots, (Numbers{0, 12}));
}

TEST(AttentionLayout, WithoutParentsEveryNodeIsATree) {
  const Numbers cu = {0, 0, 3, 3, 7, 7};
  const auto paths = layout_paths(cu, {});
  EXPECT_EQ(paths->parent, Numbers(5, -1));
  EXPECT_EQ(paths->position, Numbers(5, 0));
  EXPECT_EQ(paths->roots, (Numbers{0, 3, 7}));
  EXPECT_EQ(layout_paths(Numbers{0}, {})->roots, Numbers{0});
  EXPECT_EQ(layout_paths(Numbers{0, 0}, {})->roots, Numbers{0});
}

TEST(AttentionLayout, AnEmptyNodeMayHaveChildren) {
  const Numbers cu = {0, 2, 2, 5, 6}, parent = {-1, 0, 1, -1};
  check_layout("op", cu, parent, 0, 6);
  EXPECT_EQ(layout_paths(cu, parent)->position, (Numbers{0, 2, 2, 0}));
  EXPECT_EQ(layout_paths(cu, parent)->roots, (Numbers{0, 5, 6}));
}

TEST(AttentionLayout, TheLastLayoutIsRememberedAndAnotherIsNotTakenForIt) {
  const Numbers flat = {-1, -1, -1, -1, -1, -1, -1};
  const auto first = layout_paths(kNodes, kParent);
  EXPECT_EQ(first, layout_paths(kNodes, kParent));
  EXPECT_EQ(layout_paths(kNodes, flat)->roots, kNodes);
  EXPECT_EQ(layout_paths(kNodes, {})->position, Numbers(7, 0));
}

TEST(AttentionLayout, RefusesWhatIsNotATreeWithFieldIndexAndValue) {
  EXPECT_EQ(refusal(kNodes, kParent, 12), "none");
  EXPECT_EQ(refusal({}, {}, 3), "op: cu_seqlens is empty, wanted the boundaries from 0 to 3");
  EXPECT_EQ(refusal({1, 3}, {}, 3), "op: cu_seqlens[0] is 1, wanted 0");
  EXPECT_EQ(refusal({0, 2, 1, 3}, {}, 3),
            "op: cu_seqlens[2] is 1, wanted a number from 2, the boundary before it, to 3, the "
            "number of rows");
  EXPECT_EQ(refusal({0, 2}, {}, 3), "op: cu_seqlens[1] is 2, wanted 3, the number of rows");
  EXPECT_EQ(refusal({0, int64_t{1} << 31}, {}, int64_t{1} << 31),
            "op: the pack has 2147483648 rows, wanted fewer than 2^31");
  EXPECT_EQ(refusal({0, 3}, {}, 3, -1), "op: window is -1, wanted 0 (all) or more");
  EXPECT_EQ(refusal({0, 2, 3}, {-1}, 3),
            "op: parent has 1 entries, wanted 2, one per node of cu_seqlens");
  EXPECT_EQ(refusal({0, 1, 2, 3}, {-1, 2, 1}, 3),  // a cycle
            "op: parent[1] is 2, wanted -1 (a root) or a node before 1");
  EXPECT_EQ(refusal({0, 2, 3}, {0, -1}, 3),
            "op: parent[0] is 0, wanted -1 (a root) or a node before 0");
  EXPECT_EQ(refusal({0, 2, 3}, {-1, -2}, 3),
            "op: parent[1] is -2, wanted -1 (a root) or a node before 1");
  EXPECT_EQ(refusal({0, 1, 2, 3, 4}, {-1, 0, 0, 1}, 4),
            "op: parent[3] is 1, but the subtree of node 1 ends before node 3; nodes must be in "
            "preorder");
}

}  // namespace xrun::attention_layout_test
