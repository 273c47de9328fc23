// Every distillation loss and its gradient against a dense oracle in fp64, and the invariances of
// the operator.

#include "core/distill/kd.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <ostream>

#include "core/model/ops/head_block.h"
#include "tests/core/distill/kd_fixture.h"
#include "tests/core/distill/kd_oracle.h"
#include "tests/tensor_difference.h"

namespace xrun::kd_test {

namespace {

struct Case {
  std::string name;
  KdOptions options;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string& name : kd_loss_names()) {
    const KdLoss loss = kd_loss_of(name);
    const bool directed = loss != KdLoss::kUld && loss != KdLoss::kHybrid;
    std::string stem = name;
    std::erase(stem, '-');
    all.push_back({stem, {.loss = loss}});
    all.push_back({stem + "Temperature", {.loss = loss, .temperature = 1.7}});
    if (directed) {
      all.push_back({stem + "TopK", {.loss = loss, .top_k = 5}});
      all.push_back({stem + "Reverse", {.loss = loss, .temperature = 0.8, .reverse = true}});
    }
    for (const auto& [mean, word] : {std::pair{ChunkMean::kArithmetic, "Arithmetic"},
                                     {ChunkMean::kGeometric, "Geometric"},
                                     {ChunkMean::kChain, "Chain"}}) {
      all.push_back({stem + word, {.loss = loss, .top_k = 9, .mean = mean}});
      if (directed) {
        all.push_back(
            {stem + word + "Reverse", {.loss = loss, .top_k = 9, .reverse = true, .mean = mean}});
      }
    }
  }
  for (const double beta : {0.0, 0.3, 1.0}) {
    all.push_back({"hybridBeta" + std::to_string(static_cast<int>(beta * 10)),
                   {.loss = KdLoss::kHybrid, .beta = beta}});
  }
  return all;
}

KdGradients run_oracle(const KdProblem& problem, const KdOptions& options) {
  return kd_run(problem, [&](const KdProblem& p) {
    return kd_oracle(p.student, p.teacher, p.chunks, options, p.map.get());
  });
}

class KdLosses : public testing::TestWithParam<Case> {
 protected:
  KdOptions options() const { return GetParam().options; }
  KdProblem problem() const { return kd_problem(options().loss); }
};

TEST_P(KdLosses, AgreeWithTheDenseOracleInFp64) {
  const KdProblem p = to_type(problem(), at::kDouble);
  const KdGradients got = run_online(p, options()), want = run_oracle(p, options());
  EXPECT_EQ(got.loss.scalar_type(), at::kDouble);
  EXPECT_LT(largest_difference(got.loss, want.loss), 1e-10);
  EXPECT_LT(largest_difference(got.hidden, want.hidden), 1e-10);
  EXPECT_LT(largest_difference(got.weight, want.weight), 1e-10);
  EXPECT_GT(want.hidden.abs().max().item<double>(), 1e-6) << "a zero gradient proves nothing";
}

TEST_P(KdLosses, AgreeWithTheDenseOracleInFp32) {
  const KdProblem p = problem();
  const KdGradients got = run_online(p, options()), want = run_oracle(p, options());
  EXPECT_EQ(got.loss.scalar_type(), at::kFloat);
  const auto close = [](const at::Tensor& a, const at::Tensor& b) {
    return largest_difference(a, b) / std::max(1.0, b.abs().max().item<double>());
  };
  EXPECT_LT(close(got.loss, want.loss), 1e-5);
  EXPECT_LT(close(got.hidden, want.hidden), 1e-5);
  EXPECT_LT(close(got.weight, want.weight), 1e-5);
}

class KdBlocksTest : public KdLosses {};

TEST_P(KdBlocksTest, HaveTheSameBitsForAnyHeadMb) {
  // 603 logits per row: 1 MiB holds 434 of 600 rows, which are one block of 256 and part of
  // another.
  KdProblem p = kd_problem(options().loss, 600, 640);
  const std::vector<int64_t> sizes(300, 2), one(300, 1);
  p.student = kd_side(sizes, p.student.columns, 4, 1);
  p.teacher = kd_side(one, p.teacher.columns, 3, 2);
  p.chunks = 300;
  KdOptions o = options();
  o.head_mb = 64;
  const HeadCounts start = head_counts();
  const KdGradients all = run_online(p, o);
  EXPECT_EQ(head_counts().recomputed, start.recomputed);
  for (const int64_t mb : {1, 0}) {
    o.head_mb = mb;
    const KdGradients some = run_online(p, o);
    EXPECT_TRUE(some.loss.equal(all.loss)) << mb;
    EXPECT_TRUE(some.hidden.equal(all.hidden)) << mb;
    EXPECT_TRUE(some.weight.equal(all.weight)) << mb;
  }
  EXPECT_EQ(head_counts().recomputed - start.recomputed, (600 - 256) + 600);
}

TEST_P(KdLosses, DoNotDependOnTheSplitOfChunksOverCalls) {
  const KdProblem p = problem();
  const KdGradients whole = run_online(p, options());
  const auto part = [](KdSide side, int64_t from, int64_t to) {
    const at::Tensor in = side.chunk.ge(from).logical_and(side.chunk.lt(to)).nonzero().view(-1);
    side.index = side.index.index_select(0, in);
    side.target = side.target.index_select(0, in);
    side.chunk = side.chunk.index_select(0, in) - from;
    return side;
  };
  const KdGradients split = kd_run(p, [&](const KdProblem& q) {
    std::vector<at::Tensor> losses;
    for (const auto& [from, to] : {std::pair{0, 1}, {1, 4}, {4, 7}}) {
      losses.push_back(kd_loss(part(q.student, from, to), part(q.teacher, from, to), to - from,
                               options(), q.map));
    }
    return at::cat(losses);
  });
  EXPECT_TRUE(split.loss.equal(whole.loss));
  EXPECT_LT(largest_difference(split.hidden, whole.hidden), 1e-6);
  EXPECT_LT(relative_difference(split.weight, whole.weight), 1e-6);
}

TEST_P(KdLosses, AgreeWithFiniteDifferences) {
  const KdProblem p = to_type(problem(), at::kDouble);
  expect_gradients(
      [&](const std::vector<at::Tensor>& in) {
        KdProblem q = p;
        q.student.hidden = in[0].to(at::kDouble);
        q.student.weight = in[1].to(at::kDouble);
        return kd_loss(q.student, q.teacher, q.chunks, options(), q.map);
      },
      {p.student.hidden, p.student.weight.narrow(0, 0, p.student.columns).clone()}, {.step = 1e-6});
}

TEST_P(KdLosses, ZeroChunksGiveAConnectedZero) {
  KdProblem p = problem();
  p.student = kd_side({}, p.student.columns, 6, 10);
  p.teacher = kd_side({}, p.teacher.columns, 5, 20);
  p.chunks = 0;
  const KdGradients none = run_online(p, options());
  EXPECT_EQ(none.loss.sizes(), at::IntArrayRef({0}));
  EXPECT_EQ(none.hidden.abs().sum().item<double>(), 0);
  EXPECT_EQ(none.weight.abs().sum().item<double>(), 0);
}

TEST_P(KdLosses, PaddingHasNoGradient) {
  const KdProblem p = problem();
  const KdGradients got = run_online(p, options());
  EXPECT_EQ(got.weight.narrow(0, p.student.columns, 3).abs().sum().item<double>(), 0);
  EXPECT_TRUE(got.hidden.isfinite().all().item<bool>());
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(All, KdLosses, testing::ValuesIn(cases()), name_of_case);

// Cases without settings besides the loss, or those with them.
std::vector<Case> cases_with_settings(bool with) {
  std::vector<Case> all = cases();
  std::erase_if(all, [with](const Case& one) {
    const bool has = std::any_of(one.name.begin(), one.name.end(),
                                 [](unsigned char c) { return std::isupper(c) != 0; });
    return has != with;
  });
  return all;
}
INSTANTIATE_TEST_SUITE_P(Plain, KdBlocksTest, testing::ValuesIn(cases_with_settings(false)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Slow, KdBlocksTest, testing::ValuesIn(cases_with_settings(true)),
                         name_of_case);

}  // namespace

TEST(Kd, OnlyInputsThatNeedAGradientGetOne) {
  KdProblem p = kd_problem(KdLoss::kGold);
  p.student.hidden.set_requires_grad(true);
  p.teacher.hidden.set_requires_grad(true);
  p.teacher.weight.set_requires_grad(true);
  const KdOptions options = {.loss = KdLoss::kGold};
  kd_loss(p.student, p.teacher, p.chunks, options, p.map).sum().backward();
  EXPECT_TRUE(p.student.hidden.grad().defined());
  EXPECT_FALSE(p.student.weight.grad().defined());
  EXPECT_FALSE(p.teacher.hidden.grad().defined());
  EXPECT_FALSE(p.teacher.weight.grad().defined());
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(kd_loss(p.student, p.teacher, p.chunks, options, p.map).requires_grad());
}

TEST(Kd, NarrowInputsUseAnFp32Softmax) {
  for (const std::string& name : kd_loss_names()) {
    const KdOptions options = {.loss = kd_loss_of(name)};
    const KdProblem p = to_type(kd_problem(options.loss), at::kBFloat16);
    const KdGradients got = run_online(p, options);
    KdProblem wide = to_type(p, at::kFloat);
    const KdGradients want = run_online(wide, options);
    EXPECT_EQ(got.loss.scalar_type(), at::kFloat);
    EXPECT_EQ(got.hidden.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(got.loss.equal(want.loss)) << name;
    EXPECT_TRUE(got.hidden.equal(want.hidden.to(at::kBFloat16))) << name;
  }
}

TEST(Kd, ColumnsOfAChunkDoNotDependOnItsNeighbours) {
  // A chunk with one huge logit would take over the columns of a set per micro-batch.
  KdProblem p = kd_problem(KdLoss::kTopK);
  const KdOptions options = {.loss = KdLoss::kTopK, .top_k = 3};
  const at::Tensor before = kd_loss(p.student, p.teacher, p.chunks, options);
  p.teacher.hidden[-2].mul_(50);  // the last chunk's row
  const at::Tensor after = kd_loss(p.student, p.teacher, p.chunks, options);
  EXPECT_TRUE(after.narrow(0, 0, p.chunks - 1).equal(before.narrow(0, 0, p.chunks - 1)));
  EXPECT_FALSE(after[-1].equal(before[-1]));
}

TEST(Kd, ATeacherEqualToTheStudentHasNoLoss) {
  const KdProblem p = kd_problem(KdLoss::kFull);
  for (const char* name : {"topk", "full", "uld"}) {
    const KdOptions options = {.loss = kd_loss_of(name), .top_k = 8};
    const at::Tensor loss = kd_loss(p.student, p.student, p.chunks, options);
    EXPECT_LT(loss.abs().max().item<double>(), 1e-6) << name;
  }
}

TEST(Kd, ProbabilitiesThatUnderflowGiveFiniteLossesAndGradients) {
  for (const std::string& name : kd_loss_names()) {
    const KdOptions options = {.loss = kd_loss_of(name), .top_k = 4};
    KdProblem p = kd_problem(options.loss);
    p.student.hidden.mul_(300);
    p.teacher.hidden.mul_(-300);
    const KdGradients got = run_online(p, options);
    EXPECT_TRUE(got.loss.isfinite().all().item<bool>()) << name;
    EXPECT_TRUE(got.hidden.isfinite().all().item<bool>()) << name;
    EXPECT_TRUE(got.weight.isfinite().all().item<bool>()) << name;
  }
}

}  // namespace xrun::kd_test
