// The head: values and gradients against fp64, kept and recomputed rows, bad ids.

#include "core/model/linear_logprob.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/gradient_check.h"

namespace xrun {

namespace {

at::Tensor ids(std::vector<int64_t> values) { return at::tensor(values, at::kLong); }

// The definition, in fp64.
at::Tensor reference(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& index,
                     const at::Tensor& target) {
  const at::Tensor x = hidden.to(at::kDouble).index_select(0, index);
  const at::Tensor z = x.matmul(weight.to(at::kDouble).t());
  return at::log_softmax(z, 1).gather(1, target.unsqueeze(1)).squeeze(1);
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == 0 ? 0 : (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

struct Problem {
  at::Tensor hidden, weight, index, target, coefficient;
};

// R rows over T hidden states, some twice, of V tokens.
Problem make_problem(int64_t T, int64_t R, int64_t V, int64_t D) {
  Problem p{random_tensor({T, D}, 1, 2.0), random_tensor({V, D}, 2), at::zeros({R}, at::kLong),
            at::zeros({R}, at::kLong), random_tensor({R}, 3)};
  for (int64_t r = 0; r < R; ++r) {
    p.index[r] = static_cast<int64_t>(philox_u64(4, 0, 0, static_cast<uint64_t>(r)) %
                                      static_cast<uint64_t>(T));
    p.target[r] = static_cast<int64_t>(philox_u64(5, 0, 0, static_cast<uint64_t>(r)) %
                                       static_cast<uint64_t>(V));
  }
  return p;
}

struct Gradients {
  at::Tensor value, hidden, weight;
};

template <class F>
Gradients run(const Problem& p, F f) {
  const at::Tensor h = p.hidden.detach().clone().set_requires_grad(true);
  const at::Tensor w = p.weight.detach().clone().set_requires_grad(true);
  const at::Tensor y = f(h, w);
  y.backward(p.coefficient.to(y.scalar_type()));
  return {y.detach(), h.grad(), w.grad()};
}

}  // namespace

TEST(LinearLogprob, AgreesWithDoublePrecisionInValueAndGradient) {
  for (const auto& [T, R, V, D] : {std::tuple{5, 7, 33, 8}, {40, 300, 517, 24}, {3, 1, 2, 1}}) {
    const Problem p = make_problem(T, R, V, D);
    const Gradients got = run(p, [&](const at::Tensor& h, const at::Tensor& w) {
      return linear_logprob(h, w, p.index, p.target);
    });
    const Gradients want = run(p, [&](const at::Tensor& h, const at::Tensor& w) {
      return reference(h, w, p.index, p.target);
    });
    EXPECT_EQ(got.value.scalar_type(), at::kFloat);
    EXPECT_LT(largest_difference(got.value, want.value), 3e-6);
    EXPECT_LT(largest_difference(got.hidden, want.hidden), 5e-6);
    EXPECT_LT(largest_difference(got.weight, want.weight), 5e-5);
  }
}

TEST(LinearLogprob, AgreesWithFiniteDifferences) {
  const Problem p = make_problem(6, 9, 21, 5);
  expect_gradients(
      [&](const std::vector<at::Tensor>& in) {
        return linear_logprob(in[0], in[1], p.index, p.target);
      },
      {p.hidden, p.weight});
}

TEST(LinearLogprob, RowsBeyondTheMemoryAreRecomputedWithTheSameResult) {
  // 1 MiB holds 524 rows of 500 logits; 700 rows have 176 beyond it
  const Problem p = make_problem(30, 700, 500, 12);
  const auto with_mb = [&](int64_t mb) {
    return run(p, [&](const at::Tensor& h, const at::Tensor& w) {
      return linear_logprob(h, w, p.index, p.target, mb);
    });
  };
  const HeadCounts start = head_counts();
  const Gradients all_kept = with_mb(64);
  const HeadCounts after_kept = head_counts();
  EXPECT_EQ(after_kept.rows - start.rows, 700);
  EXPECT_EQ(after_kept.recomputed - start.recomputed, 0);
  const Gradients some = with_mb(1);
  EXPECT_EQ(head_counts().recomputed - after_kept.recomputed, 700 - 524);
  const Gradients none = with_mb(0);
  EXPECT_EQ(head_counts().recomputed - after_kept.recomputed, 700 - 524 + 700);
  for (const Gradients* g : {&some, &none}) {
    EXPECT_LT(largest_difference(g->value, all_kept.value), 2e-6);
    EXPECT_LT(largest_difference(g->hidden, all_kept.hidden), 1e-5);
    EXPECT_LT(largest_difference(g->weight, all_kept.weight), 1e-4);
  }
}

TEST(LinearLogprob, GivesTheSameBitsAgain) {
  const Problem p = make_problem(50, 400, 301, 16);
  const auto once = [&] {
    return run(p, [&](const at::Tensor& h, const at::Tensor& w) {
      return linear_logprob(h, w, p.index, p.target);
    });
  };
  const Gradients a = once(), b = once();
  EXPECT_TRUE(a.value.equal(b.value));
  EXPECT_TRUE(a.hidden.equal(b.hidden));
  EXPECT_TRUE(a.weight.equal(b.weight));
}

TEST(LinearLogprob, GradientsOfTwoCallsInFlightDoNotShareRows) {
  const Problem p = make_problem(10, 20, 64, 8), q = make_problem(12, 25, 64, 8);
  const at::Tensor h = p.hidden.clone().set_requires_grad(true);
  const at::Tensor first = linear_logprob(h, p.weight, p.index, p.target);
  const at::Tensor second = linear_logprob(h, p.weight, q.index.remainder(10), q.target);
  second.sum().backward();
  const at::Tensor after_second = h.grad().clone();
  first.backward(p.coefficient);
  const at::Tensor alone = p.hidden.clone().set_requires_grad(true);
  linear_logprob(alone, p.weight, p.index, p.target).backward(p.coefficient);
  EXPECT_LT(largest_difference(h.grad() - after_second, alone.grad()), 1e-5);
}

TEST(LinearLogprob, NoRowsGiveAnEmptyResultAndZeroGradients) {
  const Problem p = make_problem(4, 0, 10, 3);
  const Gradients g = run(p, [&](const at::Tensor& h, const at::Tensor& w) {
    return linear_logprob(h, w, p.index, p.target);
  });
  EXPECT_EQ(g.value.sizes(), at::IntArrayRef({0}));
  EXPECT_EQ(g.hidden.abs().sum().item<double>(), 0);
  EXPECT_EQ(g.weight.abs().sum().item<double>(), 0);
}

TEST(LinearLogprob, OnlyWhatNeedsAGradientGetsOne) {
  const Problem p = make_problem(6, 5, 11, 4);
  const at::Tensor h = p.hidden.clone().set_requires_grad(true);
  linear_logprob(h, p.weight, p.index, p.target).sum().backward();
  EXPECT_TRUE(h.grad().defined());
  EXPECT_FALSE(p.weight.grad().defined());
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(linear_logprob(h, p.weight, p.index, p.target).requires_grad());
}

TEST(LinearLogprob, NarrowInputsStillMeetAnFp32Softmax) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    Problem p = make_problem(9, 30, 77, 16);
    p.hidden = p.hidden.to(type);
    p.weight = p.weight.to(type);
    const Gradients got = run(p, [&](const at::Tensor& h, const at::Tensor& w) {
      return linear_logprob(h, w, p.index, p.target);
    });
    const Gradients want = run(p, [&](const at::Tensor& h, const at::Tensor& w) {
      return reference(h, w, p.index, p.target);
    });
    EXPECT_EQ(got.value.scalar_type(), at::kFloat);
    EXPECT_EQ(got.hidden.scalar_type(), type);
    EXPECT_LT(largest_difference(got.value, want.value), 3e-6);
    EXPECT_LT(largest_difference(got.weight, want.weight), 0.03);  // rounding of the result
  }
}

TEST(LinearLogprob, NamesAnIdThatIsOutOfRange) {
  const Problem p = make_problem(4, 2, 10, 3);
  const auto message = [&](const at::Tensor& index, const at::Tensor& target) -> std::string {
    try {
      linear_logprob(p.hidden, p.weight, index, target);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message(ids({0, 1}), ids({3, 10})),
            "linear_logprob: target[1] is 10, outside the vocabulary of 10");
  EXPECT_EQ(message(ids({0, 1}), ids({-1, 2})),
            "linear_logprob: target[0] is -1, outside the vocabulary of 10");
  EXPECT_EQ(message(ids({0, 4}), ids({3, 2})),
            "linear_logprob: index[1] is 4, outside the hidden rows, a number of 4");
  EXPECT_EQ(message(ids({0}), ids({3, 2})),
            "linear_logprob: index is [1], target is [2]; wanted two lists of the same length");
}

}  // namespace xrun
