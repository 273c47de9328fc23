// Losses from cached teacher columns have the bits of the online form, or are refused.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/scatter.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/model/ops/linear_head.h"
#include "tests/core/distill/kd_fixture.h"
#include "tests/core/distill/kd_oracle.h"
#include "tests/error_of.h"
#include "tests/tensor_difference.h"

namespace xrun::kd_columns_test {

namespace {

KdGradients run_cached(const KdProblem& problem, const TeacherColumns& columns,
                       const KdOptions& options) {
  return kd_run(problem, [&](const KdProblem& p) {
    return kd_loss(p.student, columns, p.chunks, options, p.map);
  });
}

void expect_same_bits(const KdGradients& a, const KdGradients& b) {
  EXPECT_TRUE(a.loss.equal(b.loss));
  EXPECT_TRUE(a.hidden.equal(b.hidden));
  EXPECT_TRUE(a.weight.equal(b.weight));
}

const std::vector<std::string> kLosses = {"p-kl", "topk"};

}  // namespace

TEST(KdColumns, TheyHaveTheBitsOfTheOnlineForm) {
  for (const std::string& name : kLosses) {
    const KdProblem several = kd_problem(kd_loss_of(name));
    KdProblem single = several;
    const std::vector<int64_t> one(static_cast<size_t>(single.chunks), 1);
    single.teacher = kd_side(one, single.teacher.columns, 5, 20);
    ASSERT_GT(several.teacher.chunk.numel(), several.chunks) << "chunks of several tokens";
    for (const KdProblem& p : {single, several}) {
      for (const double temperature : {1.0, 1.7}) {
        for (const bool reverse : {false, true}) {
          for (const std::optional<ChunkMean> mean :
               {std::optional<ChunkMean>(), std::optional(ChunkMean::kGeometric),
                std::optional(ChunkMean::kArithmetic), std::optional(ChunkMean::kChain)}) {
            const KdOptions options = {.loss = kd_loss_of(name),
                                       .temperature = temperature,
                                       .top_k = 6,
                                       .reverse = reverse,
                                       .mean = mean};
            const KdGradients online = run_online(p, options);
            for (const int64_t k : {6, 9}) {
              expect_same_bits(run_cached(p, cached_columns(p.teacher, k, temperature), options),
                               online);
            }
          }
        }
      }
    }
  }
}

TEST(KdColumns, AllColumnsHaveTheBitsOfTheOnlineFormForAnyChunk) {
  for (const std::string& name : kLosses) {
    const KdProblem p = kd_problem(kd_loss_of(name));
    for (const std::optional<ChunkMean> mean :
         {std::optional<ChunkMean>(), std::optional(ChunkMean::kArithmetic)}) {
      const KdOptions options = {.loss = kd_loss_of(name), .top_k = 7, .mean = mean};
      expect_same_bits(run_cached(p, cached_columns(p.teacher, p.teacher.columns), options),
                       run_online(p, options));
    }
  }
}

TEST(KdColumns, TheRowsOfAChunkHaveTheSameColumns) {
  const KdProblem p = kd_problem(KdLoss::kTopK);
  TeacherColumns columns = cached_columns(p.teacher, 4);
  columns.id = columns.id.clone();
  int64_t r = 1;
  while (p.teacher.chunk[r].item<int64_t>() != p.teacher.chunk[r - 1].item<int64_t>()) ++r;
  columns.id[r][2] = columns.id[r - 1][3];
  const std::string error =
      error_of([&] { kd_loss(p.student, columns, p.chunks, {.loss = KdLoss::kTopK, .top_k = 4}); });
  EXPECT_NE(error.find(fmt::format("xrun.kd: teacher.id[{}, 2] is ", r)), std::string::npos)
      << error;
  EXPECT_NE(error.find("all rows of a chunk must have the same columns"), std::string::npos)
      << error;
}

TEST(KdColumns, ALossOfTheWholeDistributionRefusesThem) {
  for (const char* name : {"gold", "h-kl", "uld", "hybrid", "full"}) {
    const KdProblem p = kd_problem(kd_loss_of(name));
    const TeacherColumns columns = cached_columns(p.teacher, 4);
    EXPECT_EQ(error_of([&] {
                kd_loss(p.student, columns, p.chunks, {.loss = kd_loss_of(name), .top_k = 4},
                        p.map);
              }),
              std::string("xrun.kd: the loss \"") + name +
                  "\" needs the teacher's whole distribution; cached columns serve p-kl and topk, "
                  "so cache hidden states instead");
  }
}

TEST(KdColumns, TheyMustHoldTopKColumnsOfTheVocabulary) {
  const KdProblem p = kd_problem(KdLoss::kTopK);
  TeacherColumns columns = cached_columns(p.teacher, 4);
  const auto message = [&](int64_t top_k) {
    return error_of(
        [&] { kd_loss(p.student, columns, p.chunks, {.loss = KdLoss::kTopK, .top_k = top_k}); });
  };
  EXPECT_EQ(message(4), "");
  EXPECT_EQ(message(5), "xrun.kd: topk is 5, but 4 columns are cached; set topk = 4 or cache more");
  columns.id = columns.id.clone();
  columns.id[3][1] = 23;
  EXPECT_EQ(message(4), "xrun.kd: teacher.id[3, 1] is 23, wanted 0 to 22");
}

}  // namespace xrun::kd_columns_test
