// FLOPs of a pack against sums written out by hand, and the count of a model.

#include "core/model/flops.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/base/temporary_dir.h"
#include "core/model/model.h"
#include "core/model/weights/adapter.h"
#include "core/model/weights/init_model.h"
#include "tests/core/model/load_model.h"

namespace xrun::flops_test {
namespace {

class Flops : public testing::Test {
 protected:
  std::filesystem::path folder(const InitOptions& options) {
    const std::filesystem::path dir = root_ / std::to_string(made_++);
    init_model(dir, options);
    return dir;
  }
  ModelConfig config(const InitOptions& options) { return read_model_config(folder(options)); }

  const TemporaryDir temporary_{"flops_test"};
  const std::filesystem::path root_ = temporary_.path();
  int made_ = 0;
};

// q and o are 32 x 32, k and v 16 x 32, three maps of the feed-forward 48 x 32.
constexpr double kWeights = 2 * (2 * 32 * 32 + 2 * 16 * 32 + 3 * 48 * 32);
const InitOptions kLlama{
    .layers = 2, .hidden = 32, .heads = 4, .kv_heads = 2, .ffn = 48, .vocab = 97};

TEST_F(Flops, AreTwoPerTokenAndWeightAndTwoProductsPerSeenKey) {
  const PackFlops flops = pack_flops(config(kLlama), {0, 5, 8});
  EXPECT_EQ(flops.base, 2 * 8 * kWeights);
  EXPECT_EQ(flops.attention, 2 * 4 * 32 * (1 + 2 + 3 + 4 + 5 + 1 + 2 + 3));  // two layers
  EXPECT_EQ(flops.adapter, 0);
  EXPECT_EQ(flops.forward() + flops.backward(/*trains_base=*/true), 3 * flops.forward());
  EXPECT_EQ(head_flops(config(kLlama), 3), 2 * 3 * 97 * 32);
}

TEST_F(Flops, AWindowBoundsTheKeysOfALayer) {
  ModelConfig windowed = config(kLlama);
  windowed.windows = {0, 2};
  const double all = 4 * 32 * (1 + 2 + 3 + 4 + 5), two = 4 * 32 * (1 + 2 + 2 + 2 + 2);
  EXPECT_EQ(pack_flops(windowed, {0, 5}).attention, all + two);
}

TEST_F(Flops, ATreeComputesSharedTokensOnceAndSeesTheKeysAbove) {
  ModelConfig windowed = config(kLlama);
  windowed.windows = {0, 4};
  // 3 tokens above 2 and above 1: positions 3 and 4 see 4 and 5 keys, at most 4 in the window.
  const PackFlops flops = pack_flops(windowed, {0, 3, 5, 6}, {-1, 0, 0});
  EXPECT_EQ(flops.base, 2 * 6 * kWeights);
  EXPECT_EQ(flops.attention, 4 * 32 * ((1 + 2 + 3 + 4 + 5 + 4) + (1 + 2 + 3 + 4 + 4 + 4)));
}

TEST_F(Flops, AMixtureCountsTheRouterAndTheChosenExperts) {
  InitOptions mixture = kLlama;
  mixture.family = "qwen3_moe";
  mixture.experts = 4;
  mixture.top_k = 2;
  mixture.expert_ffn = 24;
  const double attention = 2 * 32 * 32 + 2 * 16 * 32;
  EXPECT_EQ(pack_flops(config(mixture), {0, 7}).base,
            2 * 7 * 2 * (attention + 4 * 32 + 2 * 3 * 24 * 32));
}

TEST_F(Flops, AnAdapterTrainsItsFactorsAndNotTheWeights) {
  const AdapterOptions adapter{.rank = 4, .targets = {"q_proj"}};
  const PackFlops flops = pack_flops(config(kLlama), {0, 8}, {}, &adapter);
  EXPECT_EQ(flops.adapter, 2 * 8 * 2 * 4 * (32 + 32));
  EXPECT_EQ(flops.backward(/*trains_base=*/false),
            flops.base + 2 * flops.adapter + 2 * flops.attention);
}

TEST_F(Flops, AModelCountsItsForwardsAndTheBackwardOfThoseWithAGraph) {
  const auto model = load_model(folder(kLlama), at::kFloat, /*trainable=*/true);
  const PackInput pack = pack_sequences({{1, 2, 3}, {4, 5}});
  const double forward = pack_flops(model->config(), pack.cu_seqlens).forward();
  const double head = head_flops(model->config(), 2);
  const at::Tensor rows = int64_tensor({0, 3});
  const auto counted = [&] {
    const double before = counted_flops();
    model->token_logprob(pack, rows, rows);
    return counted_flops() - before;
  };
  EXPECT_NEAR(counted(), 3 * (forward + head), 1);
  const at::NoGradGuard no_grad;
  EXPECT_NEAR(counted(), forward + head, 1);
}

}  // namespace
}  // namespace xrun::flops_test
