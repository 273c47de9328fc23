// The forecast counts compute and exchange as the formulas of each sharding level say.

#include "core/model/cost/step_forecast.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/error_of.h"

namespace xrun::step_forecast_test {
namespace {

// Round rates: 1 GFLOP/s, 1 GB/s of memory, a link of 100 MB/s.
constexpr StepRates kRates{.blocks = {1e9, 1e9}, .head = {1e9, 1e9}, .memory = 1e9, .link = 100e6};

StepWork work(size_t micros) {
  return {.micros = std::vector<MicroWork>(micros, {.blocks = {1e9, 2e9}, .head = {}}),
          .weights = 50e6,
          .trained = 50e6};
}

TEST(StepForecast, OneGpuComputesEverythingAndSendsNothing) {
  const StepForecast one = forecast_step(work(4), kRates, 1, 1);
  EXPECT_DOUBLE_EQ(one.compute_s, 12 + 3 * 0.6);  // three gradients are added to the first
  EXPECT_DOUBLE_EQ(one.update_s, 1.4);            // 28 bytes for each of 50 M weights
  EXPECT_EQ(one.sent_bytes, 0);
  EXPECT_DOUBLE_EQ(one.step_s(), 13.8 + 1.4);
}

TEST(StepForecast, RanksShareMicroBatchesInRounds) {
  EXPECT_DOUBLE_EQ(forecast_step(work(4), kRates, 2, 1).compute_s, 6 + 0.6);
  EXPECT_DOUBLE_EQ(forecast_step(work(5), kRates, 2, 1).compute_s, 9 + 1.2);
  EXPECT_DOUBLE_EQ(forecast_step(work(1), kRates, 2, 1).compute_s, 3);
}

// Gradients of 1 s hide behind the backward of 2 s, weights behind the next forward of 1 s.
TEST(StepForecast, TheBackwardHidesTheGradientsAndTheNextForwardTheWeights) {
  const StepForecast two = forecast_step(work(2), kRates, 2, 1);
  EXPECT_DOUBLE_EQ(two.sent_bytes, 2 * 4 * 50e6 / 2);
  EXPECT_DOUBLE_EQ(two.exchange_s, 2);
  EXPECT_DOUBLE_EQ(two.exposed_s, 0);
  EXPECT_DOUBLE_EQ(two.update_s, 0.7);
  const StepForecast whole = forecast_step(work(2), kRates, 2, 0);
  EXPECT_DOUBLE_EQ(whole.update_s, 1.4);
  EXPECT_DOUBLE_EQ(whole.exposed_s, 1);
}

TEST(StepForecast, AForwardHidesAtMostItsOwnTime) {
  StepWork quick = work(2);
  for (MicroWork& micro : quick.micros) micro.blocks.forward = 0.4e9;
  EXPECT_DOUBLE_EQ(forecast_step(quick, kRates, 2, 1).exposed_s, 0.6);
}

// Four buckets of 16 MiB, of which a rank sends half.
TEST(StepForecast, AtLevel2OnlyTheLastBucketsOfWeightsAreHidden) {
  EXPECT_DOUBLE_EQ(forecast_step(work(2), kRates, 2, 2).exposed_s,
                   1 - 4 * 16 * 1048576 / 2 / 100e6);
}

// Two rounds send gradients twice; the first ones have the next forward as well.
TEST(StepForecast, GradientsAreSentAfterEachMicroBatchOfARank) {
  StepWork slow = work(4);
  for (MicroWork& micro : slow.micros) micro.blocks = {0.25e9, 0.25e9};
  const StepForecast two = forecast_step(slow, kRates, 2, 3);
  const double gradients = 4 * 50e6 / 2, fetched = 2 * 2 * 50e6 / 2;
  EXPECT_DOUBLE_EQ(two.sent_bytes, 2 * (gradients + fetched));
  // Blocks are computed again: a backward of 0.5 s, a micro-batch of 0.75 s.
  EXPECT_DOUBLE_EQ(two.exposed_s, 0.25 + 0.5 + 2 * 0.25);
}

TEST(StepForecast, BlocksAndHeadHaveTheirOwnRates) {
  StepWork one = work(1);
  one.micros[0].head = {1e9, 2e9, 1e9};
  one.micros[0].blocks.frozen = 1e9;
  const StepRates rates{.blocks = {1e9, 0.5e9}, .head = {2e9, 4e9}, .micro_s = 0.25, .memory = 1e9};
  EXPECT_DOUBLE_EQ(forecast_step(one, rates, 1, 0).compute_s,
                   (1 + 4 + 1) + (0.5 + 0.5 + 0.5) + 0.25);
}

TEST(StepForecast, TheHeadIsNotComputedAgain) {
  StepWork one = work(1);
  one.micros[0].head = {1e9, 2e9};
  one.recompute = true;
  EXPECT_DOUBLE_EQ(forecast_step(one, kRates, 1, 0).compute_s, 3 + 1 + 3);
}

TEST(StepForecast, CoresThatComputeAndExchangeHideNothing) {
  StepRates rates = kRates;
  rates.overlaps = false;
  const StepForecast two = forecast_step(work(2), rates, 2, 1);
  EXPECT_DOUBLE_EQ(two.exposed_s, two.exchange_s);
  EXPECT_DOUBLE_EQ(two.exposed_s, 2);
}

TEST(StepForecast, FrozenModelsAreFetchedFromLevel1On) {
  StepWork with = work(4);
  with.frozen = 10e6;
  const auto more = [&](int64_t level) {
    return forecast_step(with, kRates, 2, level).sent_bytes -
           forecast_step(work(4), kRates, 2, level).sent_bytes;
  };
  EXPECT_DOUBLE_EQ(more(0), 0);
  EXPECT_DOUBLE_EQ(more(1), 2 * 2 * 10e6 / 2);  // two rounds of half the weights of two bytes
}

TEST(StepForecast, PublishedRatesAreMultipliedByTheirShares) {
  const ClusterDevice device{"round", 1000, 1e9, 1e9, 100e6, 10e6};
  const RateShares shares{.utilisation = 0.5, .link = 0.25, .memory = 0.125};
  const StepRates near = published_rates(device, shares, 8);
  EXPECT_DOUBLE_EQ(near.blocks.forward, 0.5e9);
  EXPECT_DOUBLE_EQ(near.head.backward, 0.5e9);
  EXPECT_DOUBLE_EQ(near.memory, 0.125e9);
  EXPECT_DOUBLE_EQ(near.link, 25e6);
  // 16 GPUs are two machines, whose link is ten times slower.
  EXPECT_DOUBLE_EQ(published_rates(device, shares, 16).link, 2.5e6);
}

TEST(StepForecast, Level3FetchesWeightsTwiceForEachMicroBatch) {
  const StepForecast two = forecast_step(work(4), kRates, 2, 3);
  EXPECT_DOUBLE_EQ(two.compute_s, 8 + 0.6);  // blocks are computed again
  const double gradients = 4 * 50e6 / 2, fetched = 2 * 2 * 50e6 / 2;
  EXPECT_DOUBLE_EQ(two.sent_bytes, 2 * (gradients + fetched));
  EXPECT_DOUBLE_EQ(two.exposed_s, 0);
}

TEST(StepForecast, AnUnknownDeviceNamesTheKnownOnes) {
  EXPECT_EQ(error_of([] { cluster_device("tpu"); }),
            "--device tpu: wanted one of a100, h100, h200, this");
  EXPECT_EQ(cluster_device("h100").near, 8);
}

}  // namespace
}  // namespace xrun::step_forecast_test
