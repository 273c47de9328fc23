// Rows are counted where the head's graph is built, so every device counts alike.

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include "core/model/ops/head_block.h"
#include "core/model/ops/linear_head.h"
#include "core/model/ops/linear_head_op.h"
#include "core/model/ops/op.h"
#include "tests/head_oracle.h"

namespace xrun::head_counts_test {

TEST(HeadCounts, CountTheGraphAndNotItsHalves) {
  HeadProblem p = head_problem(6, 9, 21, 5);
  p.index = at::arange(9).remainder(6);  // neighbours of one index would share a row
  const auto forward = find_op<LinearHeadForward>("xrun::linear_head_forward");
  const auto backward = find_op<LinearHeadBackward>("xrun::linear_head_backward");
  const HeadCounts before = head_counts();
  const auto [logprob, entropy, lse, top_logprob, top_id, x, saved_rows] =
      forward.call(p.hidden, p.weight, p.index, p.target, 1, 0, false, 0, 0, true);
  backward.call(logprob, lse, entropy, p.weight, p.index, p.target, lse, entropy, x, saved_rows, 1,
                0, 6, true, true, false);
  EXPECT_EQ(head_counts().rows, before.rows);
  const at::Tensor hidden = p.hidden.detach().clone().requires_grad_();
  linear_head(hidden, p.weight, p.index, p.target, {.head_mb = 0}).logprob.sum().backward();
  EXPECT_EQ(head_counts().rows - before.rows, 9);
  EXPECT_EQ(head_counts().recomputed - before.recomputed, 9);
  linear_head(hidden, p.weight, p.index, p.target, {.head_mb = 64}).logprob.sum().backward();
  EXPECT_EQ(head_counts().rows - before.rows, 18);
  EXPECT_EQ(head_counts().recomputed - before.recomputed, 9);
}

}  // namespace xrun::head_counts_test
