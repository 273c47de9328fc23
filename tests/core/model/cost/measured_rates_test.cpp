// Every family's parts can be timed, in each type and under an adapter, and give plausible rates.

#include "core/model/cost/measured_rates.h"

#include <gtest/gtest.h>

#include <memory>

#include "core/base/temporary_dir.h"
#include "core/model/weights/adapter.h"
#include "core/model/weights/init_model.h"
#include "tests/error_of.h"

namespace xrun::measured_rates_test {
namespace {

ModelConfig config_of(const InitOptions& options) {
  const TemporaryDir temporary("rates_test");
  const auto dir = temporary.path() / "model";
  init_model(dir, options);
  return read_model_config(dir);
}

TimedPack pack() {
  TimedPack out;
  out.input = pack_sequences({{1, 2, 3, 4, 5, 6, 7, 8}, {9, 10, 11}});
  out.target = int64_tensor({5, 6, 7, 10});
  return out;
}

void expect_rates(const StepRates& rates) {
  for (const double rate : {rates.blocks.forward, rates.blocks.backward, rates.head.forward,
                            rates.head.backward, rates.memory}) {
    EXPECT_GT(rate, 1e4);
    EXPECT_LT(rate, 1e15);
  }
  EXPECT_GT(rates.micro_s, 0);
  EXPECT_LT(rates.micro_s, 1);
}

TEST(SlowMeasuredRates, EveryFamilyHasThem) {
  InitOptions mixture;
  mixture.family = "qwen3_moe";
  mixture.experts = 4;
  mixture.top_k = 2;
  mixture.expert_ffn = 32;
  for (const InitOptions& options : {InitOptions(), init_preset("gpt2-tiny"), mixture}) {
    SCOPED_TRACE(options.family);
    expect_rates(measure_rates(config_of(options), {.trainable = true}, pack()));
  }
}

TEST(SlowMeasuredRates, TypesAndAdaptersHaveThem) {
  const ModelConfig config = config_of(InitOptions());
  expect_rates(measure_rates(config, {.dtype = at::kBFloat16, .trainable = true}, pack()));
  const auto adapter = std::make_shared<Adapter>();
  adapter->options.rank = 4;
  expect_rates(measure_rates(config, {.trainable = true, .adapter = adapter}, pack()));
}

TEST(MeasuredRates, APackWithoutTargetsIsRefused) {
  TimedPack none = pack();
  none.target = int64_tensor({});
  EXPECT_EQ(error_of([&] { measure_rates(ModelConfig(), {}, none); }),
            "a pack to be timed has 11 tokens and 0 targets");
}

}  // namespace
}  // namespace xrun::measured_rates_test
