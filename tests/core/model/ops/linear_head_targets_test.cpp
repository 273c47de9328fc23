// The head with one target per row and no other output, whose backward needs one pass less: values
// and gradients against fp64, kept and recomputed rows, bad ids.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "core/model/ops/head_block.h"
#include "core/model/ops/linear_head.h"
#include "tests/error_of.h"
#include "tests/head_oracle.h"

namespace xrun::linear_head_targets_test {

namespace {

constexpr double kFp32 = 1e-5, kNarrow = 1e-2;  // outputs of the head in docs/numerics.md

at::Tensor ids(std::vector<int64_t> values) { return at::tensor(values, at::kLong); }

// A problem with the gradient of each row's log-probability.
struct Problem : HeadProblem {
  at::Tensor coefficient;
};

Problem make_problem(int64_t T, int64_t R, int64_t V, int64_t D) {
  return {head_problem(T, R, V, D), random_tensor({R}, 3)};
}

at::Tensor reference(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& index,
                     const at::Tensor& target) {
  return head_oracle(hidden, weight, index, target).logprob;
}

struct InputGradients {
  at::Tensor value, hidden, weight;
};

template <class F>
InputGradients run(const Problem& p, F f) {
  const at::Tensor h = p.hidden.detach().clone().set_requires_grad(true);
  const at::Tensor w = p.weight.detach().clone().set_requires_grad(true);
  const at::Tensor y = f(h, w);
  y.backward(p.coefficient.to(y.scalar_type()));
  return {y.detach(), h.grad(), w.grad()};
}

}  // namespace

TEST(TargetsAlone, AgreesWithDoublePrecisionInValueAndGradient) {
  for (const auto& [T, R, V, D] : {std::tuple{5, 7, 33, 8}, {40, 300, 517, 24}, {3, 1, 2, 1}}) {
    const Problem p = make_problem(T, R, V, D);
    const InputGradients got = run(p, [&](const at::Tensor& h, const at::Tensor& w) {
      return linear_head(h, w, p.index, p.target).logprob;
    });
    const InputGradients want = run(p, [&](const at::Tensor& h, const at::Tensor& w) {
      return reference(h, w, p.index, p.target);
    });
    EXPECT_EQ(got.value.scalar_type(), at::kFloat);
    EXPECT_LT(largest_difference(got.value, want.value), kFp32);
    expect_close(got.hidden, want.hidden, kFp32);
    expect_close(got.weight, want.weight, kFp32);
  }
}

TEST(TargetsAlone, AgreesWithFiniteDifferences) {
  const Problem p = make_problem(6, 9, 21, 5);
  expect_gradients(
      [&](const std::vector<at::Tensor>& in) {
        return linear_head(in[0], in[1], p.index, p.target).logprob;
      },
      {p.hidden, p.weight});
}

TEST(TargetsAlone, RowsBeyondTheMemoryAreRecomputedWithTheSameResult) {
  // 1 MiB holds 524 rows of 500 logits, of which two blocks of 256 are kept
  Problem p = make_problem(30, 700, 500, 12);
  p.index = at::arange(700).remainder(30);  // neighbours of one index would share a row
  const auto with_mb = [&](int64_t mb) {
    return run(p, [&](const at::Tensor& h, const at::Tensor& w) {
      return linear_head(h, w, p.index, p.target, {.head_mb = mb}).logprob;
    });
  };
  const HeadCounts start = head_counts();
  const InputGradients all_kept = with_mb(64);
  const HeadCounts after_kept = head_counts();
  EXPECT_EQ(after_kept.rows - start.rows, 700);
  EXPECT_EQ(after_kept.recomputed - start.recomputed, 0);
  const InputGradients some = with_mb(1);
  EXPECT_EQ(head_counts().recomputed - after_kept.recomputed, 700 - 512);
  const InputGradients none = with_mb(0);
  EXPECT_EQ(head_counts().recomputed - after_kept.recomputed, 700 - 512 + 700);
  for (const InputGradients* g : {&some, &none}) {
    EXPECT_TRUE(g->value.equal(all_kept.value));
    expect_close(g->hidden, all_kept.hidden, kFp32);
    expect_close(g->weight, all_kept.weight, kFp32);
  }
}

TEST(TargetsAlone, GivesTheSameBitsAgain) {
  const Problem p = make_problem(50, 400, 301, 16);
  const auto once = [&] {
    return run(p, [&](const at::Tensor& h, const at::Tensor& w) {
      return linear_head(h, w, p.index, p.target).logprob;
    });
  };
  const InputGradients a = once(), b = once();
  EXPECT_TRUE(a.value.equal(b.value));
  EXPECT_TRUE(a.hidden.equal(b.hidden));
  EXPECT_TRUE(a.weight.equal(b.weight));
}

TEST(TargetsAlone, GradientsOfTwoCallsInFlightDoNotShareRows) {
  const Problem p = make_problem(10, 20, 64, 8), q = make_problem(12, 25, 64, 8);
  const at::Tensor h = p.hidden.clone().set_requires_grad(true);
  const at::Tensor first = linear_head(h, p.weight, p.index, p.target).logprob;
  const at::Tensor second = linear_head(h, p.weight, q.index.remainder(10), q.target).logprob;
  second.sum().backward();
  const at::Tensor after_second = h.grad().clone();
  first.backward(p.coefficient);
  const at::Tensor alone = p.hidden.clone().set_requires_grad(true);
  linear_head(alone, p.weight, p.index, p.target).logprob.backward(p.coefficient);
  expect_close(h.grad() - after_second, alone.grad(), kFp32);
}

TEST(TargetsAlone, NoRowsGiveAnEmptyResultAndZeroGradients) {
  const Problem p = make_problem(4, 0, 10, 3);
  const InputGradients g = run(p, [&](const at::Tensor& h, const at::Tensor& w) {
    return linear_head(h, w, p.index, p.target).logprob;
  });
  EXPECT_EQ(g.value.sizes(), at::IntArrayRef({0}));
  EXPECT_EQ(g.hidden.abs().sum().item<double>(), 0);
  EXPECT_EQ(g.weight.abs().sum().item<double>(), 0);
}

TEST(TargetsAlone, OnlyInputsThatNeedAGradientGetOne) {
  const Problem p = make_problem(6, 5, 11, 4);
  const at::Tensor h = p.hidden.clone().set_requires_grad(true);
  linear_head(h, p.weight, p.index, p.target).logprob.sum().backward();
  EXPECT_TRUE(h.grad().defined());
  EXPECT_FALSE(p.weight.grad().defined());
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(linear_head(h, p.weight, p.index, p.target).logprob.requires_grad());
}

TEST(TargetsAlone, NarrowInputsUseAnFp32Softmax) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    Problem p = make_problem(9, 30, 77, 16);
    p.hidden = p.hidden.to(type);
    p.weight = p.weight.to(type);
    const InputGradients got = run(p, [&](const at::Tensor& h, const at::Tensor& w) {
      return linear_head(h, w, p.index, p.target).logprob;
    });
    const InputGradients want = run(p, [&](const at::Tensor& h, const at::Tensor& w) {
      return reference(h, w, p.index, p.target);
    });
    EXPECT_EQ(got.value.scalar_type(), at::kFloat);
    EXPECT_EQ(got.hidden.scalar_type(), type);
    EXPECT_LT(largest_difference(got.value, want.value), kFp32);
    expect_close(got.weight, want.weight, kNarrow);
  }
}

TEST(TargetsAlone, AnIdOutOfRangeIsNamed) {
  const Problem p = make_problem(4, 2, 10, 3);
  const auto message = [&](const at::Tensor& index, const at::Tensor& target) {
    return error_of([&] { linear_head(p.hidden, p.weight, index, target); });
  };
  EXPECT_EQ(message(ids({0, 1}), ids({3, 10})),
            "linear_head: target[1] is 10, outside the vocabulary of 10");
  EXPECT_EQ(message(ids({0, 1}), ids({-1, 2})),
            "linear_head: target[0] is -1, outside the vocabulary of 10");
  EXPECT_EQ(message(ids({0, 4}), ids({3, 2})),
            "linear_head: index[1] is 4, outside the 4 rows of hidden");
  EXPECT_EQ(message(ids({0}), ids({3, 2})),
            "linear_head: index is [1], target is [2]; wanted [R], and [R] or [R, M]");
}

}  // namespace xrun::linear_head_targets_test
