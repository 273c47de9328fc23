// config.json of a mixture: both spellings, the layers that are mixtures, and refusals.

#include <gtest/gtest.h>

#include "tests/core/model/weights/config_json.h"

namespace xrun::family_qwen3_moe_test {

namespace {

Json base() {
  return parse_json(R"({"model_type":"qwen3_moe","hidden_size":64,"intermediate_size":128,
    "num_hidden_layers":6,"num_attention_heads":4,"vocab_size":100,"num_experts":8,
    "num_experts_per_tok":2,"moe_intermediate_size":32,"norm_topk_prob":true})",
                    "base");
}

Json with(const char* key, const char* json) { return changed(base(), key, json); }

}  // namespace

TEST(Qwen3Moe, ReadsExpertsInBothSpellings) {
  Json five = base();
  five.set("num_experts", Json());
  five.set("num_local_experts", 8);
  for (const Json& config : {base(), five}) {
    const ModelConfig c = parse_config(config);
    EXPECT_EQ(c.moe.experts, 8);
    EXPECT_EQ(c.moe.top_k, 2);
    EXPECT_EQ(c.moe.ffn, 32);
    EXPECT_TRUE(c.moe.renormalise && c.qk_norm == QkNorm::kPerHead);
    EXPECT_EQ(c.head_dim, 16);
  }
}

TEST(Qwen3Moe, TwoSpellingsThatDisagreeAreRefused) {
  EXPECT_EQ(config_error(with("num_local_experts", "8")), "");
  EXPECT_EQ(config_error(with("num_local_experts", "4")),
            "config.json: num_experts is 8, num_local_experts 4: they contradict each other");
}

TEST(Qwen3Moe, AMixtureWithoutNormTopkProbIsRefused) {
  EXPECT_EQ(config_error(with("norm_topk_prob", "null")),
            "config.json: has no norm_topk_prob; checkpoints differ in it, so it must be true or "
            "false");
  EXPECT_FALSE(parse_config(with("norm_topk_prob", "false")).moe.renormalise);
}

TEST(Qwen3Moe, LayersAreMixturesUnlessNamedOrSkipped) {
  const auto layers = [](const Json& config) { return parse_config(config).moe_layers; };
  using List = std::vector<uint8_t>;
  EXPECT_EQ(layers(base()), (List{1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(layers(with("decoder_sparse_step", "2")), (List{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(layers(with("mlp_only_layers", "[0, 5]")), (List{0, 1, 1, 1, 1, 0}));
  EXPECT_FALSE(parse_config(with("mlp_only_layers", "[3]")).is_moe(3));
}

TEST(Qwen3Moe, AMixturesWindowAppliesToAllLayers) {
  Json config = with("use_sliding_window", "true");
  config.set("sliding_window", 16);
  config.set("max_window_layers", 28);
  EXPECT_EQ(parse_config(config).windows, std::vector<int64_t>(6, 16));
  config.set("use_sliding_window", false);
  EXPECT_TRUE(parse_config(config).windows.empty());
}

TEST(Qwen3Moe, InvalidNumbersAreRefused) {
  EXPECT_EQ(config_error(with("num_experts_per_tok", "9")),
            "config.json: num_experts_per_tok is 9, there are 8 experts");
  EXPECT_EQ(config_error(with("num_experts", "null")), "config.json: has no num_local_experts");
  EXPECT_EQ(config_error(with("num_experts", "0")),
            "config.json: num_experts is 0, wanted a positive integer");
  EXPECT_EQ(config_error(with("num_experts", "2000000000")),
            "config.json: 6 layers of 2000000000 experts are out of range");
  // Recorded routes hold an expert in 16 bits.
  EXPECT_EQ(config_error(with("num_experts", "32769")),
            "config.json: 6 layers of 32769 experts are out of range");
  EXPECT_EQ(config_error(with("hidden_act", "\"relu\"")),
            "config.json: experts need hidden_act 'silu'");
  EXPECT_EQ(config_error(with("mlp_only_layers", "\"none\"")),
            "config.json: mlp_only_layers must be a list of numbers");
}

}  // namespace xrun::family_qwen3_moe_test
