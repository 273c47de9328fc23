// A distillation loss and log-probs from one product equal those of separate products.

#include "core/distill/labelled_kd.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "core/model/ops/head_block.h"
#include "core/model/ops/linear_head.h"
#include "tests/core/distill/kd_fixture.h"
#include "tests/error_of.h"

namespace xrun::labelled_kd_test {
namespace {

// A problem with padding rows of ordinary size, whose probabilities count in the log-probs, or
// without padding.
KdProblem problem_of(KdLoss loss, bool padded = true) {
  KdProblem p = kd_problem(loss);
  p.student.weight.narrow(0, p.student.columns, 3).div_(1000);
  if (!padded) p.student.weight = p.student.weight.narrow(0, 0, p.student.columns).contiguous();
  return p;
}

// Rows 0 and 1 of hidden, which no chunk reads; one of the targets is padding if there is any.
UnchunkedRows unchunked(bool padded = true) {
  const std::vector<int64_t> targets = {padded ? 24 : 21, 3};
  return {at::tensor(std::vector<int64_t>{1, 0}), at::tensor(targets)};
}

struct Case {
  KdLoss loss;
  bool cached;
  KdOptions options;
  bool padded = true;
};

bool keeps_support(const Case& c) { return xrun::keeps_support(c.options); }

// A projection computed from the support alone rounds differently.
bool rounds_loss(const Case& c) { return c.loss == KdLoss::kProjected && keeps_support(c); }

// All losses of an online teacher, and those that cached columns serve.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string& name : kd_loss_names()) {
    const KdLoss loss = kd_loss_of(name);
    const bool serves = loss == KdLoss::kProjected || loss == KdLoss::kTopK;
    for (const bool from_cache : {false, true}) {
      if (from_cache && !serves) continue;
      for (const double temperature : {1.0, 1.7}) {
        for (const bool padded : {false, true}) {
          const KdOptions options{.loss = loss, .temperature = temperature, .top_k = 6};
          all.push_back({loss, from_cache, options, padded});
        }
      }
      if (!serves) continue;
      for (const double temperature : {1.0, 0.6}) {
        for (const bool padded : {false, true}) {
          const KdOptions back{
              .loss = loss, .temperature = temperature, .top_k = 6, .reverse = true};
          all.push_back({loss, from_cache, back, padded});
        }
      }
    }
    if (!serves) continue;
    for (const ChunkMean mean : {ChunkMean::kChain, ChunkMean::kArithmetic}) {
      all.push_back({loss, true, {.loss = loss, .top_k = 6, .mean = mean}});
    }
  }
  return all;
}

std::string name_of(const Case& c) {
  return std::string(kd_loss_name(c.loss)) + (c.cached ? " cached, " : " online, ") +
         std::to_string(c.options.temperature) + (c.padded ? "" : ", without padding");
}

struct Weighing {
  double loss = 1, logprob = 1;  // 0: no gradient comes from it
  bool operator==(const Weighing&) const = default;
};
constexpr Weighing kBoth{}, kLossAlone{1, 0}, kLogprobAlone{0, 1};

struct Result {
  at::Tensor loss, logprob, hidden, weight;
};

// Fixed gradients of the outputs.
at::Tensor loss_weights(int64_t n) { return random_tensor({n}, 7) + 1.5; }
at::Tensor logprob_weights(int64_t n) { return random_tensor({n}, 8) + 0.5; }

template <class F>
Result run(const KdProblem& problem, Weighing weighing, const F& f) {
  KdSide student = problem.student;
  student.hidden = student.hidden.detach().clone().set_requires_grad(true);
  student.weight = student.weight.detach().clone().set_requires_grad(true);
  const LabelledKd out = f(student);
  at::Tensor sum = at::zeros({}, at::kFloat);
  if (weighing.loss != 0) sum = sum + (out.loss * loss_weights(out.loss.numel())).sum();
  if (weighing.logprob != 0) {
    sum = sum + weighing.logprob * (out.logprob * logprob_weights(out.logprob.numel())).sum();
  }
  sum.backward();
  return {out.loss.detach(), out.logprob.detach(), student.hidden.grad(), student.weight.grad()};
}

Result run_labelled(const Case& c, Weighing weighing, int64_t head_mb = 1024) {
  const KdProblem p = problem_of(c.loss, c.padded);
  KdOptions options = c.options;
  options.head_mb = head_mb;
  return run(p, weighing, [&](const KdSide& student) {
    if (!c.cached)
      return labelled_kd(student, unchunked(c.padded), {p.teacher}, p.chunks, options, p.map);
    return labelled_kd(student, unchunked(c.padded),
                       cached_columns(p.teacher, 9, options.temperature), p.chunks, options, p.map);
  });
}

// Computes the same with kd_loss and linear_head.
Result run_apart(const Case& c, Weighing weighing) {
  const KdProblem p = problem_of(c.loss, c.padded);
  return run(p, weighing, [&](const KdSide& student) {
    const UnchunkedRows rest = unchunked(c.padded);
    const at::Tensor logprob =
        linear_head(student.hidden, student.weight, at::cat({student.index, rest.index}),
                    at::cat({student.target, rest.target}))
            .logprob;
    if (!c.cached) {
      return LabelledKd{kd_loss(student, p.teacher, p.chunks, c.options, p.map), logprob};
    }
    return LabelledKd{kd_loss(student, cached_columns(p.teacher, 9, c.options.temperature),
                              p.chunks, c.options, p.map),
                      logprob};
  });
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>() / std::max(1.0, b.abs().max().item<double>());
}

}  // namespace

TEST(LabelledKd, TheLossAloneHasTheBitsOfKdLoss) {
  for (const Case& c : cases()) {
    const Result got = run_labelled(c, kLossAlone), want = run_apart(c, kLossAlone);
    EXPECT_LE(difference(got.loss, want.loss), rounds_loss(c) ? 1e-6 : 0) << name_of(c);
    if (keeps_support(c)) {
      EXPECT_LT(difference(got.hidden, want.hidden), 1e-6) << name_of(c);
      EXPECT_LT(difference(got.weight, want.weight), 1e-6) << name_of(c);
    } else {
      EXPECT_TRUE(got.hidden.equal(want.hidden)) << name_of(c);
      EXPECT_TRUE(got.weight.equal(want.weight)) << name_of(c);
    }
  }
}

// The first backward overwrites the saved logits.
TEST(LabelledKd, AKeptGraphHasASecondBackward) {
  const KdProblem p = problem_of(KdLoss::kTopK);
  KdSide student = p.student;
  student.hidden = student.hidden.detach().clone().set_requires_grad(true);
  student.weight = student.weight.detach().clone().set_requires_grad(true);
  const LabelledKd out = labelled_kd(student, unchunked(), cached_columns(p.teacher, 9, 1),
                                     p.chunks, {.loss = KdLoss::kTopK, .top_k = 6});
  const at::Tensor sum = out.loss.sum() + out.logprob.sum();
  sum.backward({}, /*retain_graph=*/true);
  const at::Tensor hidden = student.hidden.grad().clone(), weight = student.weight.grad().clone();
  sum.backward();
  EXPECT_LT(difference(student.hidden.grad(), 2 * hidden), 1e-6);
  EXPECT_LT(difference(student.weight.grad(), 2 * weight), 1e-6);
  EXPECT_GT(hidden.abs().max().item<double>(), 0);
}

TEST(LabelledKd, TheLogProbsHaveTheBitsOfTheHead) {
  for (const Case& c : cases()) {
    const Result got = run_labelled(c, kLogprobAlone), want = run_apart(c, kLogprobAlone);
    EXPECT_TRUE(got.logprob.equal(want.logprob)) << name_of(c);
    EXPECT_LT(difference(got.hidden, want.hidden), 1e-6) << name_of(c);
    EXPECT_LT(difference(got.weight, want.weight), 1e-6) << name_of(c);
  }
}

TEST(LabelledKd, TheGradientOfBothIsTheSumOfTheTwo) {
  for (const Case& c : cases()) {
    const Result got = run_labelled(c, kBoth), want = run_apart(c, kBoth);
    EXPECT_LE(difference(got.loss, want.loss), rounds_loss(c) ? 1e-6 : 0) << name_of(c);
    EXPECT_TRUE(got.logprob.equal(want.logprob)) << name_of(c);
    EXPECT_LT(difference(got.hidden, want.hidden), 1e-6) << name_of(c);
    EXPECT_LT(difference(got.weight, want.weight), 1e-6) << name_of(c);
  }
}

// A gradient of 1e-40 makes the factor of the kept softmax 0.
TEST(LabelledKd, LogProbsOfNoWeightLeaveTheGradientOfTheLoss) {
  for (const Case& c : cases()) {
    const Result got = run_labelled(c, {.loss = 1, .logprob = 1e-40}),
                 want = run_labelled(c, kLossAlone);
    EXPECT_LT(difference(got.hidden, want.hidden), 1e-6) << name_of(c);
    EXPECT_LT(difference(got.weight, want.weight), 1e-6) << name_of(c);
  }
}

// The gradient of the weight is a sum over rows, which head_mb divides into products.
TEST(LabelledKd, HeadMbChangesAtMostTheLastBitsOfTheWeightsGradient) {
  for (const Case& c : cases()) {
    if (c.options.temperature != 1) continue;
    for (const Weighing weighing : {kBoth, kLossAlone}) {
      const Result all = run_labelled(c, weighing), none = run_labelled(c, weighing, 0),
                   losses = run_labelled(c, weighing, 1);  // no room for logits beside h
      for (const Result* some : {&none, &losses}) {
        EXPECT_TRUE(some->loss.equal(all.loss)) << name_of(c);
        EXPECT_TRUE(some->logprob.equal(all.logprob)) << name_of(c);
        EXPECT_TRUE(some->hidden.equal(all.hidden)) << name_of(c);
        EXPECT_LT(difference(some->weight, all.weight), 1e-6) << name_of(c);
      }
    }
  }
}

TEST(LabelledKd, BothTakeOneProduct) {
  for (const Case& c : cases()) {
    const int64_t before = head_counts().rows;
    const Result got = run_labelled(c, kBoth);
    if (!keeps_support(c)) continue;
    EXPECT_EQ(head_counts().rows - before, got.logprob.numel()) << name_of(c);
  }
}

TEST(LabelledKd, AProjectedLossKeepsItsSupportUnlessItsMeanNeedsAllColumns) {
  EXPECT_TRUE(xrun::keeps_support({.temperature = 2}));
  EXPECT_TRUE(xrun::keeps_support({.loss = KdLoss::kTopK, .temperature = 2}));
  EXPECT_FALSE(xrun::keeps_support({.mean = ChunkMean::kGeometric}));
}

// A support onto which no token of the student projects has a loss, and no gradient.
TEST(LabelledKd, NothingThatProjectsLeavesTheLossFinite) {
  KdProblem p = problem_of(KdLoss::kProjected, /*padded=*/false);
  auto map = std::make_shared<VocabularyMap>(*p.map);
  std::ranges::fill(map->begin, 0);
  p.map = map;
  for (const bool reverse : {false, true}) {
    const KdOptions options{.top_k = 6, .reverse = reverse};
    const Result got = run(p, kLossAlone, [&](const KdSide& student) {
      return labelled_kd(student, unchunked(false), {p.teacher}, p.chunks, options, p.map);
    });
    EXPECT_TRUE(at::isfinite(got.loss).all().item<bool>());
    EXPECT_EQ(got.hidden.abs().max().item<double>(), 0);
    EXPECT_EQ(got.weight.abs().max().item<double>(), 0);
  }
}

TEST(LabelledKd, WithoutAChunkTheLogProbsRemain) {
  KdProblem p = problem_of(KdLoss::kTopK);
  const at::Tensor none = at::empty({0}, at::kLong);
  p.student.index = p.student.chunk = p.student.target = none;
  p.teacher.index = p.teacher.chunk = p.teacher.target = none;
  for (const Weighing weighing : {kBoth, kLossAlone}) {
    const Result got = run(p, weighing, [&](const KdSide& student) {
      return labelled_kd(student, unchunked(), {p.teacher}, 0, {.loss = KdLoss::kTopK});
    });
    EXPECT_EQ(got.loss.numel(), 0);
    EXPECT_EQ(got.logprob.numel(), 2);
    EXPECT_EQ(got.weight.abs().max().item<double>() > 0, weighing == kBoth);
  }
}

TEST(LabelledKd, RefusesAnFp64WeightAndTargetsOutOfRange) {
  const KdProblem p = to_type(problem_of(KdLoss::kTopK), at::kDouble);
  EXPECT_EQ(error_of([&] {
              labelled_kd(p.student, unchunked(), {p.teacher}, p.chunks, {.loss = KdLoss::kTopK});
            }),
            "labelled_kd: the weight is Double on cpu, wanted fp32, bf16 or fp16 on the CPU; call "
            "kd_loss and linear_head");
  UnchunkedRows rest = unchunked();
  rest.target = rest.target + 10;
  const KdProblem q = problem_of(KdLoss::kTopK);
  EXPECT_EQ(error_of([&] {
              labelled_kd(q.student, rest, {q.teacher}, q.chunks, {.loss = KdLoss::kTopK});
            }),
            "xrun.kd: rest.target[0] is 34, wanted 0 to 25");
}

}  // namespace xrun::labelled_kd_test
