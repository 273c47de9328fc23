// Twenty steps of DPO against a plain PyTorch loop that runs each sequence alone
// (tests/golden/make/dpo_steps.py).

#include <gtest/gtest.h>

#include "tests/core/train/golden_steps.h"
#include "tests/parity.h"
#include "tests/tree.h"

namespace xrun::dpo_golden_test {
namespace {

const std::string kGolden = source_path("tests/golden/");

PackedBatch pack_of(const Json::Array& pairs, size_t begin, size_t end) {
  PackedBatch pack;
  for (size_t i = begin; i < end; ++i) {
    for (const auto& [name, side] :
         {std::pair<const char*, int8_t>{"chosen", 1}, {"rejected", -1}}) {
      const Json& one = pairs[i].at(name);
      const std::vector<int32_t> ids = golden_ids(one);
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

class DpoGolden : public testing::TestWithParam<GoldenPacking> {};

TEST_P(DpoGolden, TwentyStepsAgreeWithPlainPyTorch) {
  const TinyFolder cache;
  const Json golden = read_json(kGolden + "dpo_steps.json");
  const Json& settings = golden.at("settings");
  const Json::Array& pairs = golden.at("pairs").as_array();
  const auto count = static_cast<size_t>(settings.at("pairs").as_int());
  const auto policy = Policy::open(kGolden + "tiny_dpo");
  const auto reference = policy->reference();
  AdamW adamw({policy}, options_of(settings));

  Batch everything({}, {pack_of(pairs, 0, pairs.size())});
  const at::Tensor logprob = policy->logprob(everything);
  for (size_t i = 0; i < pairs.size(); ++i) {
    for (size_t side = 0; side < 2; ++side) {
      const double wanted =
          pairs[i].at(side == 0 ? "chosen" : "rejected").at("logprob").as_double();
      const double got = logprob[static_cast<int64_t>(2 * i + side)].item().toDouble();
      SCOPED_TRACE(2 * i + side);
      expect_parity(got, wanted, 1e-5 * std::abs(wanted));
    }
  }

  const Objective objective = dpo(policy, reference, settings.at("beta").as_double());
  const auto pack = [&](size_t begin, size_t end) { return pack_of(pairs, begin, end); };
  expect_golden_steps(golden, count, GetParam(), pack, objective, *policy, adamw);
  reference->check_digest();
}

// Pairs a micro-batch: all four together, and each alone; as they are, and folded.
INSTANTIATE_TEST_SUITE_P(Packing, DpoGolden,
                         testing::Values(GoldenPacking{4, false}, GoldenPacking{4, true}), name_of);
INSTANTIATE_TEST_SUITE_P(SlowPacking, DpoGolden,
                         testing::Values(GoldenPacking{1, false}, GoldenPacking{1, true}), name_of);

}  // namespace
}  // namespace xrun::dpo_golden_test
