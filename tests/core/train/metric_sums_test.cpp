// Metrics are means over the units that their lengths allow.

#include "core/train/metric_sums.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/train/batches/batch.h"
#include "tests/error_of.h"

namespace xrun::metric_sums_test {
namespace {

struct TinySegment {
  int64_t trained;  // tokens
  float weight;
  int32_t source = 0;
};

// One sequence per entry, one pack per list.
Batch batch_of_segments(const std::vector<std::vector<TinySegment>>& packs,
                        std::vector<std::string> sources = {}) {
  std::vector<PackedBatch> packed;
  int64_t sample = 0;
  for (const auto& segments : packs) {
    PackedBatch& pack = packed.emplace_back();
    for (const TinySegment& one : segments) {
      PackedBatch::Segment segment;
      segment.row_id = segment.segment_id = sample++;
      segment.weight = one.weight;
      segment.source = one.source;
      std::vector<uint8_t> trained(static_cast<size_t>(one.trained) + 2, 1);
      trained[0] = trained[1] = 0;
      pack.append(segment, std::vector<int32_t>(trained.size(), 5), trained);
    }
  }
  BatchInfo info;
  info.unit = Unit::kToken;
  info.sources = std::move(sources);
  return Batch(info, std::move(packed));
}

ObjectiveResult with_metric(MicroBatch& micro, Unit unit, at::Tensor metric) {
  ObjectiveResult result;
  result.losses.emplace_back(unit, at::zeros({micro.unit_count(unit)}));
  result.metrics.emplace_back("share", std::move(metric));
  return result;
}

// The first micro-batch has as many sequences as trained tokens; the second tells them apart.
TEST(MetricSums, AMetricHasOneUnitInEveryMicroBatch) {
  Batch batch = batch_of_segments({{{2, 3}, {0, 1}}, {{3, 1}}});
  MetricSums sums;
  for (const auto& micro : batch.micros()) {
    const bool first = micro->index() == 0;
    const int64_t rows = micro->row_count();
    const at::Tensor share = first ? at::ones({rows}) : at::zeros({rows});
    ObjectiveResult result;
    result.losses.emplace_back(Unit::kSequence, at::zeros({micro->segment_count()}));
    result.metrics.emplace_back("share", share);
    sums.add_metrics(result, *micro);
  }
  // By tokens of weight 3, 3, 1, 1, 1. By sequences in the first micro-batch: 4 / (4 + 3).
  EXPECT_DOUBLE_EQ(*find_metric(sums.read().metrics, "share"), 6.0 / 9.0);
}

TEST(MetricSums, TheUnitOfTheLossIsPreferredIfSeveralFit) {
  for (const Unit unit : {Unit::kSequence, Unit::kToken}) {
    Batch batch = batch_of_segments({{{2, 3}, {0, 1}}});
    MicroBatch& micro = *batch.micros()[0];
    MetricSums sums;
    sums.add_metrics(with_metric(micro, unit, at::tensor({1.f, 0.f})), micro);
    EXPECT_DOUBLE_EQ(*find_metric(sums.read().metrics, "share"), unit == Unit::kToken ? 0.5 : 0.75);
  }
}

TEST(MetricSums, AMetricWithWeightsIsTheMeanOverItsOwnRows) {
  Batch batch = batch_of_segments({{{2, 1}, {2, 1}}, {{2, 1}}});
  MetricSums sums;
  for (const auto& micro : batch.micros()) {
    const bool first = micro->index() == 0;
    ObjectiveResult result =
        with_metric(*micro, Unit::kSequence, first ? at::tensor({2.f, 8.f}) : at::tensor({4.f}));
    result.metric_weights["share"] = first ? at::tensor({1.f, 0.f}) : at::tensor({1.f});
    sums.add_metrics(result, *micro);
  }
  EXPECT_DOUBLE_EQ(*find_metric(sums.read().metrics, "share"), 3.0);
}

TEST(MetricSums, AMetricWhoseWeightsAreAllZeroIsOmitted) {
  Batch batch = batch_of_segments({{{2, 1}}});
  MetricSums sums;
  ObjectiveResult result = with_metric(*batch.micros()[0], Unit::kSequence, at::ones({1}));
  result.metric_weights["share"] = at::zeros({1});
  sums.add_metrics(result, *batch.micros()[0]);
  EXPECT_FALSE(find_metric(sums.read().metrics, "share"));
}

TEST(MetricSums, RefusesAMetricThatChangesItsUnit) {
  Batch batch = batch_of_segments({{{2, 1}}, {{3, 1}, {1, 1}}});
  MetricSums sums;
  MicroBatch &one = *batch.micros()[0], &two = *batch.micros()[1];
  sums.add_metrics(with_metric(one, Unit::kToken, at::ones({2})), one);
  EXPECT_EQ(message_of<Error>(
                [&] { sums.add_metrics(with_metric(two, Unit::kToken, at::ones({2})), two); }),
            "the metric \"share\" has one value per token in one micro-batch and one per "
            "sequence in another; return it in one unit");
}

TEST(MetricSums, TermsMayUseOneNameInDifferentUnits) {
  Batch batch = batch_of_segments({{{2, 1}}, {{3, 1}, {1, 1}}});
  MetricSums sums;
  MicroBatch &one = *batch.micros()[0], &two = *batch.micros()[1];
  sums.add_metrics(with_metric(one, Unit::kToken, at::ones({2})), one, 0);
  sums.add_metrics(with_metric(two, Unit::kSequence, at::zeros({2})), two, 1);
  EXPECT_DOUBLE_EQ(*find_metric(sums.read().metrics, "share"), 0.5);
}

Metrics source_metrics(std::vector<std::string> sources) {
  Batch batch =
      batch_of_segments({{{1, 1, 0}, {1, 3, 1}}, {{1, 1, 1}, {1, 0, 2}}}, std::move(sources));
  MetricSums sums;
  for (const auto& micro : batch.micros()) {
    ObjectiveResult result;
    result.losses.emplace_back(
        Unit::kSequence, micro->index() == 0 ? at::tensor({8.f, 2.f}) : at::tensor({6.f, 7.f}));
    result.metrics.emplace_back(
        "accuracy", micro->index() == 0 ? at::tensor({1.f, 0.f}) : at::tensor({1.f, 1.f}));
    result.metrics.emplace_back("scalar", at::ones({}));
    sums.add_source_losses(result, *micro, 0, 0.5);
    sums.add_metrics(result, *micro);
  }
  return sums.read().metrics;
}

TEST(MetricSums, AMixtureReportsTheWeightedMeanOfEachSource) {
  const Metrics wanted = {
      {"loss/chats", 0.5 * 8}, {"loss/code", 0.5 * (3 * 2 + 6) / 4}, {"accuracy", 2.0 / 5},
      {"accuracy/chats", 1},   {"accuracy/code", 1.0 / 4},           {"scalar", 1},
  };
  EXPECT_EQ(source_metrics({"chats", "code", "weightless"}), wanted);
}

TEST(MetricSums, ASingleSourceHasNoSeparateMetrics) {
  EXPECT_EQ(source_metrics({}), (Metrics{{"accuracy", 2.0 / 5}, {"scalar", 1}}));
}

TEST(MetricSums, ANonFiniteValueStaysInItsSource) {
  Batch batch = batch_of_segments({{{1, 1, 0}, {1, 1, 1}}}, {"a", "b"});
  MicroBatch& micro = *batch.micros()[0];
  MetricSums sums;
  sums.add_metrics(with_metric(micro, Unit::kSequence, at::tensor({NAN, 2.f})), micro);
  EXPECT_EQ(find_metric(sums.read().metrics, "share/b"), 2.0);
}

}  // namespace
}  // namespace xrun::metric_sums_test
