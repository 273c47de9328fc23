// Twenty steps of fine-tuning on a weighted mixture against a plain PyTorch loop that runs each
// sequence alone (tests/golden/make/sft_steps.py).

#include <gtest/gtest.h>

#include "core/data/packs/mixture.h"
#include "tests/core/train/golden_steps.h"
#include "tests/tree.h"

namespace xrun::sft_golden_test {
namespace {

const std::string kGolden = source_path("tests/golden/");

PackedBatch pack_of(const Json::Array& sequences, size_t begin, size_t end) {
  PackedBatch pack;
  for (size_t i = begin; i < end; ++i) {
    std::vector<uint8_t> trained;
    for (const Json& on : sequences[i].at("trained").as_array())
      trained.push_back(static_cast<uint8_t>(on.as_int()));
    PackedBatch::Segment segment;
    segment.row_id = segment.segment_id = segment.group_id = static_cast<int64_t>(i);
    segment.weight = static_cast<float>(sequences[i].at("weight").as_double());
    pack.append(segment, golden_ids(sequences[i]), trained);
  }
  return pack;
}

class SftGolden : public testing::TestWithParam<GoldenPacking> {};

TEST_P(SftGolden, TwentyStepsAgreeWithPlainPyTorch) {
  const TinyFolder cache;
  const Json golden = read_json(kGolden + "sft_steps.json");
  const Json& settings = golden.at("settings");
  const Json::Array& sequences = golden.at("sequences").as_array();
  const auto count = static_cast<size_t>(settings.at("sequences").as_int());
  const auto policy = Policy::open(kGolden + "tiny_dpo");
  AdamW adamw({policy}, options_of(settings));
  const Objective nll = [&](MicroBatch& p) {
    ObjectiveResult result;
    result.losses.emplace_back(Unit::kToken, policy->token_logprob(p.all()).neg());
    return result;
  };
  const auto pack = [&](size_t begin, size_t end) { return pack_of(sequences, begin, end); };
  expect_golden_steps(golden, count, GetParam(), pack, nll, *policy, adamw);
}

// Sequences a micro-batch: all four together, as they are and folded, and each alone.
INSTANTIATE_TEST_SUITE_P(Packing, SftGolden,
                         testing::Values(GoldenPacking{4, false}, GoldenPacking{4, true}), name_of);
INSTANTIATE_TEST_SUITE_P(SlowPacking, SftGolden, testing::Values(GoldenPacking{1, false}), name_of);

TEST(SftGolden, TheMixtureDrawsTheSameRows) {
  const Json golden = read_json(kGolden + "sft_steps.json");
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
}  // namespace xrun::sft_golden_test
