// Twenty steps of KTO against a plain PyTorch loop in fp64 that runs each sequence alone
// (tests/golden/make/kto_steps.py). Two answers share a prompt, and so do those of the mismatched
// batch that gives the baseline.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "core/train/batches/data_batch.h"
#include "tests/core/train/golden_steps.h"
#include "tests/tree.h"

namespace xrun::kto_golden_test {
namespace {

const std::string kGolden = source_path("tests/golden/");

// One answer of dpo_steps.json: its even ones are the chosen sides.
PackedBatch pack_of(const Json::Array& pairs, size_t begin, size_t end) {
  PackedBatch pack;
  for (size_t i = begin; i < end; ++i) {
    const Json& one = pairs[i / 2].at(i % 2 == 0 ? "chosen" : "rejected");
    const std::vector<int32_t> ids = golden_ids(one);
    std::vector<uint8_t> trained(ids.size(), 0);
    const Json::Array& range = one.at("trained").as_array();
    std::fill(trained.begin() + range[0].as_int(), trained.begin() + range[1].as_int(), 1);
    PackedBatch::Segment segment;
    segment.row_id = segment.group_id = segment.segment_id = static_cast<int64_t>(i);
    pack.append(segment, ids, trained);
  }
  return pack;
}

class KtoGolden : public testing::TestWithParam<GoldenPacking> {};

TEST_P(KtoGolden, TwentyStepsAgreeWithPlainPyTorch) {
  const TinyFolder cache;
  const Json golden = read_json(kGolden + "kto_steps.json");
  const Json pairs = read_json(kGolden + "dpo_steps.json").at("pairs");
  const Json& settings = golden.at("settings");
  const Json::Array& labels = golden.at("labels").as_array();
  const double beta = settings.at("beta").as_double(), good = settings.at("good").as_double(),
               bad = settings.at("bad").as_double();
  const auto policy = Policy::open(kGolden + "tiny_dpo");
  const auto reference = policy->reference();
  AdamW adamw({policy}, options_of(settings));

  double z = 0;
  size_t step = 0;
  const auto prepare = [&](Batch& batch) {
    const at::NoGradGuard no_grad;
    std::vector<float> label;
    for (int64_t i = 0; i < batch.size(); ++i) {
      label.push_back(static_cast<float>(
          labels[step * static_cast<size_t>(batch.size()) + static_cast<size_t>(i)].as_int()));
    }
    batch.set_field("label", at::tensor(label), Unit::kSequence);
    const auto other = mismatched_batch(batch);
    const at::Tensor r = policy->logprob(*other).sub(reference->logprob(*other));
    z = std::max(0.0, r.mean().item().toDouble());
    const double wanted = golden.at("steps").as_array()[step++].at("z").as_double();
    EXPECT_NEAR(z, wanted, 1e-3 * std::max(1.0, wanted)) << "step " << step - 1;
    const bool folds = batch.micros()[0]->info().fold.folds();
    const auto& micros = other->micros();
    EXPECT_EQ(std::any_of(micros.begin(), micros.end(),
                          [&](const auto& micro) {
                            return micro->computed(policy->model()).fold != nullptr;
                          }),
              folds);
  };
  const Objective kto = [&](MicroBatch& micro) {
    const View f = micro.all();
    const at::Tensor r = policy->logprob(f).sub(reference->logprob(f)), label = f.field("label");
    const at::Tensor value = r.sub(z).mul(label.mul(2).sub(1)).mul(beta).sigmoid();
    const at::Tensor lambda = label.mul(good - bad).add(bad);
    return ObjectiveResult{{{Unit::kSequence, lambda.mul(value.neg().add(1))}}, {}};
  };
  const auto pack = [&](size_t begin, size_t end) { return pack_of(pairs.as_array(), begin, end); };
  expect_golden_steps(golden, 2 * static_cast<size_t>(settings.at("pairs").as_int()), GetParam(),
                      pack, kto, *policy, adamw, prepare);
  reference->check_digest();
}

// Answers a micro-batch: all eight of a step, and the two to one prompt; whole, and folded.
INSTANTIATE_TEST_SUITE_P(Packing, KtoGolden, testing::Values(GoldenPacking{8, true}), name_of);
INSTANTIATE_TEST_SUITE_P(SlowPacking, KtoGolden,
                         testing::Values(GoldenPacking{8, false}, GoldenPacking{2, false},
                                         GoldenPacking{2, true}),
                         name_of);

}  // namespace
}  // namespace xrun::kto_golden_test
