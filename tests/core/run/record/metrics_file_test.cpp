// A metrics file is read back as series, even if it is torn or holds garbage.

#include "core/run/record/metrics_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "tests/scratch_folder.h"

namespace xrun::metrics_file_test {
namespace {

RunMetrics metrics_of(const std::string& text) {
  const ScratchFolder folder;
  put_text(folder / "metrics.jsonl", text);
  return read_metrics(folder / "metrics.jsonl");
}

TEST(MetricsFile, GivesASeriesForEachMetric) {
  const RunMetrics metrics = metrics_of(
      "{\"step\":0,\"train/loss\":0.5,\"valid/loss\":0.75}\n{\"step\":2,\"train/loss\":0.25}\n");
  ASSERT_EQ(metrics.series.size(), 2u);
  const MetricSeries* loss = metrics.find("train/loss");
  ASSERT_NE(loss, nullptr);
  EXPECT_EQ(loss->steps, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(loss->values, (std::vector<double>{0.5, 0.25}));
  EXPECT_EQ(metrics.find("valid/loss")->steps, (std::vector<int64_t>{0}));
  EXPECT_EQ(metrics.find("step"), nullptr);
  EXPECT_EQ(metrics.objects, 2);
  EXPECT_EQ(metrics.last_step, 2);
  EXPECT_EQ(metrics.notices, std::vector<std::string>{"metrics.jsonl has no line for step 1"});
}

TEST(MetricsFile, NullsAreCountedAndNotANumber) {
  const RunMetrics metrics = metrics_of("{\"step\":0,\"train/loss\":null,\"nonfinite\":1}\n");
  EXPECT_TRUE(std::isnan(metrics.find("train/loss")->values[0]));
  EXPECT_EQ(metrics.nonfinite, 1);
  EXPECT_EQ(metrics.find("nonfinite"), nullptr);
}

TEST(MetricsFile, ATornLastLineIsDroppedAndReported) {
  const RunMetrics metrics = metrics_of("{\"step\":0,\"a\":1}\n{\"step\":1,\"a\":");
  EXPECT_EQ(metrics.objects, 1);
  ASSERT_EQ(metrics.notices.size(), 1u);
  EXPECT_EQ(metrics.notices[0],
            "metrics.jsonl:2: ends in the middle of a line, as after a kill or while the run is "
            "writing; that line is left out");
}

// The last line may be whole and yet lack its end: its last number may be cut.
TEST(MetricsFile, ALastLineWithoutANewlineIsTorn) {
  EXPECT_EQ(metrics_of("{\"step\":0,\"a\":1}").objects, 0);
}

TEST(MetricsFile, GarbageBetweenLinesIsSkippedAndCounted) {
  using namespace std::string_literals;
  const RunMetrics metrics = metrics_of(
      "{\"step\":0,\"a\":1}\n\x00\xff\x1b[2J\n[1,2]\n{\"step\":0,\"a\":2}\n{\"step\":1,\"a\":\"x\"}\n"s);
  EXPECT_EQ(metrics.objects, 2);
  EXPECT_EQ(metrics.find("a")->values, (std::vector<double>{1}));
  ASSERT_EQ(metrics.notices.size(), 1u);
  EXPECT_EQ(metrics.notices[0],
            "metrics.jsonl:2: is not a JSON object; this and 2 more lines are left out");
}

TEST(MetricsFile, ADecreasingStepIsReported) {
  const RunMetrics metrics = metrics_of("{\"step\":0,\"a\":1}\n{\"step\":-3,\"a\":2}\n");
  ASSERT_EQ(metrics.notices.size(), 1u);
  EXPECT_EQ(metrics.notices[0],
            "metrics.jsonl:2: is of step -3, the line before it of step 0; that line is left out");
}

TEST(MetricsFile, ANegativeStepOfTheFirstLineIsReported) {
  const RunMetrics metrics = metrics_of("{\"step\":-5,\"a\":1}\n{\"step\":0,\"a\":2}\n");
  EXPECT_EQ(metrics.objects, 1);
  ASSERT_EQ(metrics.notices.size(), 1u);
  EXPECT_EQ(metrics.notices[0],
            "metrics.jsonl:1: is of step -5, wanted 0 or more; that line is left out");
}

TEST(MetricsFile, ManyNamesAreOnlyCounted) {
  std::string line = "{\"step\":0";
  for (size_t i = 0; i < RunMetrics::kMostSeries + 3; ++i) {
    line += ",\"m" + std::to_string(i) + "\":1";
  }
  const RunMetrics metrics = metrics_of(line + "}\n");
  EXPECT_EQ(metrics.series.size(), RunMetrics::kMostSeries);
  ASSERT_EQ(metrics.notices.size(), 1u);
  EXPECT_NE(metrics.notices[0].find("3 values of later ones"), std::string::npos);
}

TEST(MetricsFile, AnEmptyFileHasNoSeries) {
  EXPECT_EQ(metrics_of("").objects, 0);
  EXPECT_EQ(metrics_of("").last_step, -1);
}

std::string missing(const std::vector<int64_t>& steps, int64_t end = 0) {
  MissingSteps found;
  for (const int64_t step : steps) found.has(step);
  found.until(end);
  return found.text();
}

TEST(MissingSteps, AreEmptyIfEveryStepHasALine) {
  EXPECT_EQ(missing({}), "");
  EXPECT_EQ(missing({0, 1, 2}, 3), "");
}

TEST(MissingSteps, AreNamedByTheirRanges) {
  EXPECT_EQ(missing({0, 2}), "metrics.jsonl has no line for step 1");
  EXPECT_EQ(missing({2, 3, 5}, 8), "metrics.jsonl has no line for steps 0 to 1, 4, 6 to 7");
  EXPECT_EQ(missing({1, 3, 5, 7, 9}), "metrics.jsonl has no line for steps 0, 2, 4 and 2 more");
}

TEST(MissingSteps, HandleHugeStepNumbers) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(missing({-5, 0, most, most}),
            "metrics.jsonl has no line for steps 1 to 9223372036854775806");
}

TEST(StepValues, EveryStepOfEitherSeriesComesOnceInOrder) {
  const MetricSeries a{"loss", {0, 1, 4}, {10, 11, 14}}, b{"loss", {1, 2, 4, 5}, {21, 22, 24, 25}};
  std::vector<int64_t> steps;
  int both = 0;
  EXPECT_FALSE(first_step_where(a, b, [&](const StepValues& at) {
    steps.push_back(at.step);
    both += at.a && at.b;
    return false;
  }));
  EXPECT_EQ(steps, (std::vector<int64_t>{0, 1, 2, 4, 5}));
  EXPECT_EQ(both, 2);
  const auto found = first_step_where(a, b, [](const StepValues& at) { return !at.a; });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 2);
  EXPECT_EQ(found->b, 22);
}

TEST(StepValues, ZerosOfOppositeSignsDifferAndNaNsDoNot) {
  EXPECT_FALSE(same_value(0.0, -0.0));
  EXPECT_TRUE(same_value(NAN, -NAN));
  EXPECT_FALSE(same_value(NAN, 0));
}

}  // namespace
}  // namespace xrun::metrics_file_test
