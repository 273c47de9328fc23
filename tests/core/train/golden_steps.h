#pragma once
// Training steps of another implementation, compared with ours.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/data/packs/packed_batch.h"
#include "core/train/batches/computed_pack.h"
#include "tests/core/train/trained.h"
#include "tests/parity.h"

namespace xrun {

// AdamW as the settings of a golden file have it.
inline AdamWOptions options_of(const Json& settings) {
  AdamWOptions options;
  options.lr = settings.at("lr").as_double();
  options.schedule = schedule_of(settings.at("schedule").as_string());
  if (const Json* warmup = settings.find("warmup")) options.warmup = warmup->as_double();
  options.beta1 = settings.at("betas").as_array()[0].as_double();
  options.beta2 = settings.at("betas").as_array()[1].as_double();
  options.eps = settings.at("eps").as_double();
  options.weight_decay = settings.at("weight_decay").as_double();
  options.clip = settings.at("clip").as_double();
  return options;
}

inline std::vector<int32_t> golden_ids(const Json& sequence) {
  std::vector<int32_t> ids;
  for (const Json& id : sequence.at("ids").as_array()) {
    ids.push_back(static_cast<int32_t>(id.as_int()));
  }
  return ids;
}

// The division of a golden step: units in a pack, with shared prefixes folded or not.
struct GoldenPacking {
  size_t units;
  bool folded;
};

inline std::string name_of(const testing::TestParamInfo<GoldenPacking>& info) {
  return std::to_string(info.param.units) + (info.param.folded ? "_folded" : "");
}

// The pack of the units [begin, end) of a golden file.
using PackOf = std::function<PackedBatch(size_t begin, size_t end)>;

// The metrics of one step that the file has, within the tolerances of golden runs.
inline void expect_golden_metrics(const Metrics& metrics, const Json& wanted, size_t step) {
  SCOPED_TRACE(step);
  constexpr std::pair<const char*, double> kTolerances[] = {
      {"loss", 5e-4}, {"lr", 1e-12}, {"margin", 1e-3}, {"accuracy", 0}};
  for (const auto& [name, tolerance] : kTolerances) {
    const Json* number = wanted.find(name);
    if (number == nullptr) continue;
    SCOPED_TRACE(name);
    expect_parity(value(metrics, name), number->as_double(), tolerance);
  }
  const double norm = wanted.at("grad_norm").as_double();
  expect_parity(value(metrics, "grad_norm"), norm, 1e-3 * norm);
}

// Takes the twenty steps of a golden file, of `units` each.
//   prepare  called with the batch of a step before it
inline void expect_golden_steps(
    const Json& golden, size_t units, const GoldenPacking& packing, const PackOf& pack_of,
    const Objective& objective, Policy& policy, AdamW& adamw,
    const std::function<void(Batch&)>& prepare = [](Batch&) {}) {
  const Json::Array& steps = golden.at("steps").as_array();
  ASSERT_EQ(steps.size(), 20u);
  int64_t computed = 0, logical = 0;
  for (size_t step = 0; step < steps.size(); ++step) {
    BatchInfo info;
    info.step = static_cast<int64_t>(step);
    info.total_steps = static_cast<int64_t>(steps.size());
    info.data_key = "golden";
    info.fold.mode = packing.folded ? FoldMode::kAlways : FoldMode::kNever;
    info.fold.min_run = 1;
    std::vector<PackedBatch> packs;
    for (size_t i = step * units; i < (step + 1) * units; i += packing.units) {
      packs.push_back(pack_of(i, i + packing.units));
    }
    if (packs.front().pair_id.front() < 0) info.unit = Unit::kToken;
    Batch batch(info, packs);
    for (const auto& micro : batch.micros()) {
      computed += micro->computed(policy.model()).token_count();
      logical += micro->token_count();
    }
    prepare(batch);
    const Metrics metrics = train_step({{&batch, objective}}, &adamw);
    expect_golden_metrics(metrics, steps[step], step);
  }
  EXPECT_EQ(computed < logical, packing.folded) << computed << " of " << logical << " tokens";
}

}  // namespace xrun
