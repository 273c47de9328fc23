// Twenty steps of fine-tuning on a weighted mixture against a plain PyTorch loop that runs each
// sequence alone (tests/golden/make/sft_steps.py).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/base/json.h"
#include "core/data/mixture.h"
#include "core/train/adamw.h"
#include "core/train/policy.h"
#include "core/train/step.h"
#include "tests/core/train/step_fixture.h"
#include "tests/tree.h"

namespace xrun {
namespace {

const std::string kGolden = source_path("tests/golden/");

PackedBatch pack_of(const Json::Array& sequences, size_t begin, size_t end) {
  PackedBatch pack;
  for (size_t i = begin; i < end; ++i) {
    std::vector<int32_t> ids;
    std::vector<uint8_t> trained;
    for (const Json& id : sequences[i].at("ids").as_array())
      ids.push_back(static_cast<int32_t>(id.as_int()));
    for (const Json& on : sequences[i].at("trained").as_array())
      trained.push_back(static_cast<uint8_t>(on.as_int()));
    PackedBatch::Segment segment;
    segment.row_id = segment.sample_id = segment.group_id = static_cast<int64_t>(i);
    segment.weight = static_cast<float>(sequences[i].at("weight").as_double());
    pack.append(segment, ids, trained);
  }
  return pack;
}

AdamWOptions options_of(const Json& settings) {
  AdamWOptions options;
  options.lr = settings.at("lr").as_double();
  options.schedule = schedule_of(settings.at("schedule").as_string());
  options.warmup = settings.at("warmup").as_double();
  options.beta1 = settings.at("betas").as_array()[0].as_double();
  options.beta2 = settings.at("betas").as_array()[1].as_double();
  options.weight_decay = settings.at("weight_decay").as_double();
  options.clip = settings.at("clip").as_double();
  return options;
}

class SftGolden : public testing::TestWithParam<size_t> {};

TEST_P(SftGolden, TwentyStepsAgreeWithPlainPyTorch) {
  const TinyFolder cache;
  const Json golden = read_json(std::string(kGolden) + "sft_steps.json");
  const Json& settings = golden.at("settings");
  const Json::Array& sequences = golden.at("sequences").as_array();
  const Json::Array& steps = golden.at("steps").as_array();
  const auto count = static_cast<size_t>(settings.at("sequences").as_int());
  const auto policy = Policy::open(std::string(kGolden) + "tiny_dpo");
  AdamW adamw({policy}, options_of(settings));
  const Objective nll = [&](MicroBatch& p) {
    ObjectiveResult result;
    result.losses.emplace_back(Unit::kToken, policy->token_logprob(p.all()).neg());
    return result;
  };
  double worst = 0;
  for (size_t step = 0; step < steps.size(); ++step) {
    BatchInfo info;
    info.step = static_cast<int64_t>(step);
    info.total_steps = static_cast<int64_t>(steps.size());
    std::vector<PackedBatch> packs;
    for (size_t i = 0; i < count; i += GetParam()) {
      packs.push_back(pack_of(sequences, step * count + i, step * count + i + GetParam()));
    }
    Batch batch(info, packs);
    const Metrics metrics = train_step(batch, nll, adamw);
    const Json& wanted = steps[step];
    const double loss = wanted.at("loss").as_double(), norm = wanted.at("grad_norm").as_double();
    EXPECT_NEAR(value(metrics, "loss"), loss, 5e-4) << "step " << step;
    EXPECT_NEAR(value(metrics, "lr"), wanted.at("lr").as_double(), 1e-12) << "step " << step;
    EXPECT_NEAR(value(metrics, "grad_norm"), norm, 1e-3 * norm) << "step " << step;
    worst = std::max(worst, std::abs(value(metrics, "loss") - loss));
  }
  std::printf("largest difference of the loss: %.2e\n", worst);
}

// Sequences a micro-batch: all four together, and each alone.
INSTANTIATE_TEST_SUITE_P(Packing, SftGolden, testing::Values(4u, 1u));

TEST(SftGolden, TheMixtureDrawsThoseRows) {
  const Json golden = read_json(std::string(kGolden) + "sft_steps.json");
  std::vector<double> shares;
  for (const Json& share : golden.at("settings").at("shares").as_array())
    shares.push_back(share.as_double());
  const Mixture mixture(shares, 0, /*shuffle=*/false);
  const Json::Array& sequences = golden.at("sequences").as_array();
  for (size_t i = 0; i < sequences.size(); ++i) {
    const Mixture::Draw draw = mixture(static_cast<int64_t>(i));
    const int64_t rows = draw.source == 0 ? 60 : 20;
    EXPECT_EQ(draw.source, sequences[i].at("source").as_int()) << i;
    EXPECT_EQ(draw.draw % rows, sequences[i].at("row").as_int()) << i;
  }
}

}  // namespace
}  // namespace xrun
