// The forecast counts compute and exchange as the formulas of each sharding level say.

#include "core/model/cost/step_forecast.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/error_of.h"

namespace xrun::step_forecast_test {
namespace {

// A device of round rates: 1 GFLOP/s, 1 GB/s everywhere, links of 100 and 10 MB/s.
constexpr ClusterDevice kDevice{"round", 1000, 1e9, 1e9, 100e6, 10e6};

StepWork work(size_t micros) {
  return {.micros = std::vector<MicroWork>(micros, {.forward = 1e9, .backward = 2e9}),
          .weights = 50e6,
          .trained = 50e6};
}

ForecastTerms terms(int64_t gpus, int64_t level) {
  return {.gpus = gpus, .level = level, .utilisation = 1, .link_share = 1, .memory_share = 1};
}

TEST(StepForecast, OneGpuComputesEverythingAndSendsNothing) {
  const StepForecast one = forecast_step(work(4), kDevice, terms(1, 1));
  EXPECT_DOUBLE_EQ(one.compute_s, 12);
  EXPECT_DOUBLE_EQ(one.update_s, 1.4);  // 28 bytes for each of 50 M weights
  EXPECT_EQ(one.sent_bytes, 0);
  EXPECT_DOUBLE_EQ(one.step_s(), 13.4);
}

TEST(StepForecast, RanksShareMicroBatchesInRounds) {
  EXPECT_DOUBLE_EQ(forecast_step(work(4), kDevice, terms(2, 1)).compute_s, 6);
  EXPECT_DOUBLE_EQ(forecast_step(work(5), kDevice, terms(2, 1)).compute_s, 9);
  EXPECT_DOUBLE_EQ(forecast_step(work(1), kDevice, terms(2, 1)).compute_s, 3);
}

// Gradients of 1 s hide behind the backward of 2 s, weights behind the next forward of 1 s.
TEST(StepForecast, TheBackwardHidesTheGradientsAndTheNextForwardTheWeights) {
  const StepForecast two = forecast_step(work(2), kDevice, terms(2, 1));
  EXPECT_DOUBLE_EQ(two.sent_bytes, 2 * 4 * 50e6 / 2);
  EXPECT_DOUBLE_EQ(two.exchange_s, 2);
  EXPECT_DOUBLE_EQ(two.exposed_s, 0);
  EXPECT_DOUBLE_EQ(two.update_s, 0.7);
  const StepForecast whole = forecast_step(work(2), kDevice, terms(2, 0));
  EXPECT_DOUBLE_EQ(whole.update_s, 1.4);
  EXPECT_DOUBLE_EQ(whole.exposed_s, 1);
}

TEST(StepForecast, AForwardHidesAtMostItsOwnTime) {
  StepWork quick = work(2);
  for (MicroWork& micro : quick.micros) micro.forward = 0.4e9;
  EXPECT_DOUBLE_EQ(forecast_step(quick, kDevice, terms(2, 1)).exposed_s, 0.6);
}

// Four buckets of 16 MiB, of which a rank sends half.
TEST(StepForecast, AtLevel2OnlyTheLastBucketsOfWeightsAreHidden) {
  EXPECT_DOUBLE_EQ(forecast_step(work(2), kDevice, terms(2, 2)).exposed_s,
                   1 - 4 * 16 * 1048576 / 2 / 100e6);
}

// Two rounds send gradients twice; the first ones have the next forward as well.
TEST(StepForecast, GradientsAreSentAfterEachMicroBatchOfARank) {
  StepWork slow = work(4);
  for (MicroWork& micro : slow.micros) micro = {.forward = 0.25e9, .backward = 0.25e9};
  const StepForecast two = forecast_step(slow, kDevice, terms(2, 3));
  const double gradients = 4 * 50e6 / 2, fetched = 2 * 2 * 50e6 / 2;
  EXPECT_DOUBLE_EQ(two.sent_bytes, 2 * (gradients + fetched));
  // Blocks are computed again: a backward of 0.5 s, a micro-batch of 0.75 s.
  EXPECT_DOUBLE_EQ(two.exposed_s, 0.25 + 0.5 + 2 * 0.25);
}

// 16 GPUs are two machines, whose link is ten times slower.
TEST(StepForecast, OtherMachinesAreFarther) {
  const double share = 15.0 / 16;
  const StepForecast far = forecast_step(work(16), kDevice, terms(16, 1));
  EXPECT_DOUBLE_EQ(far.exchange_s, 2 * 4 * 50e6 * share / 10e6);
}

TEST(StepForecast, Level3FetchesWeightsTwiceForEachMicroBatch) {
  const StepForecast two = forecast_step(work(4), kDevice, terms(2, 3));
  EXPECT_DOUBLE_EQ(two.compute_s, 8);  // blocks are computed again
  const double gradients = 4 * 50e6 / 2, fetched = 2 * 2 * 50e6 / 2;
  EXPECT_DOUBLE_EQ(two.sent_bytes, 2 * (gradients + fetched));
  EXPECT_DOUBLE_EQ(two.exposed_s, 0);
}

TEST(StepForecast, AnUnknownDeviceNamesTheKnownOnes) {
  EXPECT_EQ(error_of([] { cluster_device("tpu"); }),
            "--device tpu: wanted one of a100, h100, h200");
  EXPECT_EQ(cluster_device("h100").near, 8);
}

}  // namespace
}  // namespace xrun::step_forecast_test
