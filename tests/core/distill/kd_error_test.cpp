// Bad arguments of the distillation losses: what, got, wanted.

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "tests/core/distill/kd_fixture.h"
#include "tests/error_of.h"

namespace xrun::kd_error_test {

namespace {

at::Tensor id_list(std::vector<int64_t> values) { return at::tensor(values, at::kLong); }

// Three rows per side in two chunks.
KdProblem small(KdLoss loss) {
  KdProblem p = kd_problem(loss);
  p.student = kd_side({1, 2}, p.student.columns, 6, 1);
  p.teacher = kd_side({2, 1}, p.teacher.columns, 5, 2);
  p.chunks = 2;
  return p;
}

std::string message(const KdProblem& p, const KdOptions& options) {
  return error_of([&] { kd_loss(p.student, p.teacher, p.chunks, options, p.map); });
}

}  // namespace

TEST(KdErrors, OptionsOutOfRange) {
  const KdProblem p = small(KdLoss::kTopK);
  EXPECT_EQ(message(p, {.loss = KdLoss::kTopK, .temperature = 0}),
            "xrun.kd: temperature is 0, wanted a number from 1e-06 to 1e+30");
  EXPECT_EQ(message(p, {.loss = KdLoss::kTopK, .temperature = -1}),
            "xrun.kd: temperature is -1, wanted a number from 1e-06 to 1e+30");
  EXPECT_EQ(message(p, {.loss = KdLoss::kTopK, .top_k = 0}),
            "xrun.kd: topk is 0, wanted at least 1");
  EXPECT_EQ(message(p, {.loss = KdLoss::kHybrid, .beta = 1.5}),
            "xrun.kd: beta is 1.5, wanted 0 to 1");
  EXPECT_EQ(message(p, {.loss = KdLoss::kTopK, .head_mb = -1}),
            "xrun.kd: head_mb is -1, wanted 0 or more");
  EXPECT_EQ(message(p, {.loss = KdLoss::kUld, .reverse = true}),
            "xrun.kd: the loss \"uld\" does not read reverse; it reads temperature, mean. For a "
            "second loss call xrun.kd again and add the results");
}

TEST(KdErrors, Shapes) {
  const KdOptions options = {.loss = KdLoss::kUld};
  KdProblem p = small(KdLoss::kUld);
  p.student.hidden = p.student.hidden.narrow(1, 0, 4);
  EXPECT_EQ(
      message(p, options),
      "xrun.kd: student.hidden is [6, 4], student.weight is [26, 6]; wanted [N, D] and [V, D]");
  p = small(KdLoss::kUld);
  p.teacher.target = id_list({0, 1});
  EXPECT_EQ(message(p, options), "xrun.kd: teacher.target is [2], wanted [3]");
  p.teacher.target = at::Tensor();
  EXPECT_EQ(
      message(p, options),
      "xrun.kd: teacher.target is missing; a chain multiplies the probabilities of the text's "
      "tokens");
  p = small(KdLoss::kUld);
  p.student.chunk = id_list({0, 1});
  EXPECT_EQ(message(p, options), "xrun.kd: student.chunk is [2], wanted [3]");
  p = small(KdLoss::kUld);
  p.student.columns = 27;
  EXPECT_EQ(
      message(p, options),
      "xrun.kd: student.columns is 27, wanted 1 to the 26 rows of its weight, or 0 for all of "
      "them");
}

TEST(KdErrors, IdsOutOfRange) {
  const KdOptions options = {.loss = KdLoss::kUld};
  KdProblem p = small(KdLoss::kUld);
  p.student.index = id_list({0, 6, 1});
  EXPECT_EQ(message(p, options), "xrun.kd: student.index[1] is 6, wanted 0 to 5");
  p = small(KdLoss::kUld);
  p.teacher.target = id_list({0, 1, 31});
  EXPECT_EQ(message(p, options), "xrun.kd: teacher.target[2] is 31, wanted 0 to 30");
  p = small(KdLoss::kUld);
  p.teacher.chunk = id_list({0, -1, 1});
  EXPECT_EQ(message(p, options), "xrun.kd: teacher.chunk[1] is -1, wanted 0 to 1");
  p = small(KdLoss::kUld);
  p.chunks = 0;
  EXPECT_EQ(message(p, options),
            "xrun.kd: student.chunk has 3 ids, but there is nothing that they can name");
}

TEST(KdErrors, ChunksThatFallOrLackASide) {
  const KdOptions options = {.loss = KdLoss::kUld};
  KdProblem p = small(KdLoss::kUld);
  p.student.chunk = id_list({0, 1, 0});
  EXPECT_EQ(message(p, options),
            "xrun.kd: student.chunk[2] is 0 after 1; the rows of a chunk must be neighbours, in "
            "rising order");
  p.student.chunk = id_list({1, 1, 1});
  EXPECT_EQ(message(p, options),
            "xrun.kd: chunk 0 has no row of the student; leave out chunks that have one side only");
  p = small(KdLoss::kUld);
  p.teacher.chunk = id_list({0, 0, 0});
  EXPECT_EQ(message(p, options),
            "xrun.kd: chunk 1 has no row of the teacher; leave out chunks that have one side only");
}

TEST(KdErrors, VocabulariesThatDoNotFit) {
  KdProblem p = small(KdLoss::kGold);
  const auto map = p.map;
  p.map = nullptr;
  EXPECT_EQ(message(p, {.loss = KdLoss::kGold}), "xrun.kd: the loss \"gold\" needs a projection");
  EXPECT_EQ(message(p, {.loss = KdLoss::kTopK}),
            "xrun.kd: the loss \"topk\" compares one vocabulary, but the student has 23 tokens and "
            "the teacher 31; use p-kl, gold, h-kl or hybrid, which read a projection");
  p.map = map;
  EXPECT_EQ(message(p, {.loss = KdLoss::kUld}),
            "xrun.kd: the loss \"uld\" reads no projection, but one is given");
  p.teacher.columns = 30;
  p.teacher.target = id_list({0, 1, 2});
  EXPECT_EQ(
      message(p, {.loss = KdLoss::kProjected}),
      "xrun.kd: the projection maps 23 tokens to 31, but the student has 23 and the teacher 30");
  p = small(KdLoss::kGold);
  p.map = std::make_shared<const VocabularyMap>(
      make_vocabulary_map(23, 31, std::vector<int64_t>(24, 0), {}, {}, {}));
  EXPECT_EQ(message(p, {.loss = KdLoss::kGold}),
            "xrun.kd: the projection has no common tokens, so the loss \"gold\" would compare "
            "nothing");
  EXPECT_EQ(message(p, {.loss = KdLoss::kProjected}),
            "xrun.kd: the projection has no entries, so the loss \"p-kl\" would compare nothing");
}

TEST(KdErrors, ThereIsNoSecondDerivative) {
  KdProblem p = small(KdLoss::kUld);
  p.student.hidden.set_requires_grad(true);
  const at::Tensor loss =
      kd_loss(p.student, p.teacher, p.chunks, {.loss = KdLoss::kUld}, p.map).sum();
  EXPECT_EQ(error_of([&] { loss.backward({}, false, /*create_graph=*/true); }),
            "xrun.kd has no second derivative; call backward without create_graph");
}

TEST(VocabularyMap, RefusesIdsOutOfRangeAndTokensInTwoPairs) {
  EXPECT_EQ(error_of([] {
              make_vocabulary_map(2, 2, {0, 1, 2}, {0, 2}, {1, 1}, {});
            }),
            "vocabulary map: id[1] is 2, outside the teacher's vocabulary of 2");
  EXPECT_EQ(error_of([] {
              make_vocabulary_map(2, 2, {0, 1}, {0}, {1}, {});
            }),
            "vocabulary map: begin has 2 numbers, wanted 3 that rise from 0 to the 1 entries");
  EXPECT_EQ(error_of([] {
              make_vocabulary_map(2, 2, {0, 0, 0}, {}, {}, {{0, 1}, {1, 1}});
            }),
            "vocabulary map: token 1 of the teacher is in two pairs");
}

TEST(VocabularyMap, ListsTheStudentTokensOfEachTeacherToken) {
  // Two rows of the projection point to teacher token 1; pairs come unsorted.
  const VocabularyMap map =
      make_vocabulary_map(3, 3, {0, 2, 3, 3}, {1, 2, 1}, {.75f, .25f, 1}, {{1, 1}, {0, 2}});
  EXPECT_EQ(map.begin, (std::vector<int64_t>{0, 0, 2, 3}));
  EXPECT_EQ(map.student, (std::vector<int32_t>{0, 1, 0}));
  EXPECT_EQ(map.weight, (std::vector<float>{.75f, 1, .25f}));
  EXPECT_EQ(map.common_student, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(map.common_teacher, (std::vector<int32_t>{2, 1}));
  EXPECT_EQ(map.rest_student, std::vector<int32_t>{2});
  EXPECT_EQ(map.rest_teacher, std::vector<int32_t>{0});
}

}  // namespace xrun::kd_error_test
