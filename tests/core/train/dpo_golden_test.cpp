// Twenty steps of DPO against a plain PyTorch loop that runs each sequence alone
// (tests/golden/make/dpo_steps.py).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/base/json.h"
#include "core/train/adamw.h"
#include "core/train/policy.h"
#include "core/train/reference.h"
#include "core/train/step.h"
#include "tests/core/train/step_fixture.h"
#include "tests/tree.h"

namespace xrun {
namespace {

const std::string kGolden = source_path("tests/golden/");

PackedBatch pack_of(const Json::Array& pairs, size_t begin, size_t end) {
  PackedBatch pack;
  for (size_t i = begin; i < end; ++i) {
    for (const auto& [name, side] :
         {std::pair<const char*, int8_t>{"chosen", 1}, {"rejected", -1}}) {
      const Json& one = pairs[i].at(name);
      std::vector<int32_t> ids;
      for (const Json& id : one.at("ids").as_array())
        ids.push_back(static_cast<int32_t>(id.as_int()));
      std::vector<uint8_t> trained(ids.size(), 0);
      const Json::Array& range = one.at("trained").as_array();
      for (int64_t t = range[0].as_int(); t < range[1].as_int(); ++t)
        trained[static_cast<size_t>(t)] = 1;
      PackedBatch::Segment segment;
      segment.row_id = segment.pair_id = segment.group_id = static_cast<int64_t>(i);
      segment.side = side;
      pack.append(segment, ids, trained);
    }
  }
  return pack;
}

class DpoGolden : public testing::TestWithParam<size_t> {};

TEST_P(DpoGolden, TwentyStepsAgreeWithPlainPyTorch) {
  const TinyFolder cache;
  const Json golden = read_json(std::string(kGolden) + "dpo_steps.json");
  const Json& settings = golden.at("settings");
  const Json::Array& pairs = golden.at("pairs").as_array();
  const auto count = static_cast<size_t>(settings.at("pairs").as_int());
  const auto policy = Policy::open(std::string(kGolden) + "tiny_dpo");
  const auto reference = policy->reference();
  AdamWOptions options;
  options.lr = settings.at("lr").as_double();
  options.schedule = schedule_of(settings.at("schedule").as_string());
  options.clip = settings.at("clip").as_double();
  AdamW adamw({policy}, options);

  Batch everything({}, {pack_of(pairs, 0, pairs.size())});
  const at::Tensor logprob = policy->logprob(everything);
  double worst_logprob = 0, worst_loss = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    for (size_t side = 0; side < 2; ++side) {
      const double wanted =
          pairs[i].at(side == 0 ? "chosen" : "rejected").at("logprob").as_double();
      const double got = logprob[static_cast<int64_t>(2 * i + side)].item().toDouble();
      EXPECT_NEAR(got, wanted, 1e-5 * std::abs(wanted)) << "pair " << i << " side " << side;
      worst_logprob = std::max(worst_logprob, std::abs(got / wanted - 1));
    }
  }

  const Objective objective = dpo(policy, reference, settings.at("beta").as_double());
  const Json::Array& steps = golden.at("steps").as_array();
  for (size_t step = 0; step < steps.size(); ++step) {
    BatchInfo info;
    info.step = static_cast<int64_t>(step);
    info.total_steps = static_cast<int64_t>(steps.size());
    info.data_key = "dpo_golden";
    std::vector<PackedBatch> packs;
    for (size_t i = 0; i < count; i += GetParam()) {
      packs.push_back(pack_of(pairs, step * count + i, step * count + i + GetParam()));
    }
    Batch batch(info, packs);
    const Metrics metrics = train_step(batch, objective, adamw);
    const Json& wanted = steps[step];
    const double loss = value(metrics, "loss"), wanted_loss = wanted.at("loss").as_double();
    EXPECT_NEAR(loss, wanted_loss, 5e-4) << "step " << step;
    worst_loss = std::max(worst_loss, std::abs(loss - wanted_loss));
    EXPECT_NEAR(value(metrics, "margin"), wanted.at("margin").as_double(), 1e-3) << "step " << step;
    EXPECT_EQ(value(metrics, "accuracy"), wanted.at("accuracy").as_double()) << "step " << step;
    const double norm = wanted.at("grad_norm").as_double();
    EXPECT_NEAR(value(metrics, "grad_norm"), norm, 1e-3 * norm) << "step " << step;
  }
  reference->check_digest();
  std::printf("largest difference: loss %.2e, log-prob %.2e relative\n", worst_loss, worst_logprob);
}

// Pairs a micro-batch: all four together, and each alone.
INSTANTIATE_TEST_SUITE_P(Packing, DpoGolden, testing::Values(4u, 1u));

}  // namespace
}  // namespace xrun
