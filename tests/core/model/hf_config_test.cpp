// config.json in both spellings, and what is refused by name.

#include "core/model/hf_config.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/model/family.h"

namespace xrun {

namespace {

Json base() {
  return parse_json(R"({"model_type":"llama","hidden_size":64,"intermediate_size":128,
    "num_hidden_layers":2,"num_attention_heads":4,"vocab_size":100})",
                    "base");
}

ModelConfig parse(const Json& config, const Json& generation = Json::object()) {
  return parse_model_config(config, generation, "config.json");
}

std::string message(const Json& config) {
  try {
    parse(config);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

Json with(const char* key, const char* json) {
  Json config = base();
  config.set(key, parse_json(json, key));
  return config;
}

}  // namespace

TEST(HfConfig, FillsTheDefaultsOfLlama) {
  const ModelConfig c = parse(base());
  EXPECT_EQ(c.kv_heads, 4);
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_EQ(c.max_length, 2048);
  EXPECT_EQ(c.norm_eps, 1e-6);
  EXPECT_EQ(c.rope.theta, 10000.0);
  EXPECT_EQ(c.rope.type, "default");
  EXPECT_FALSE(c.tied || c.qkv_bias || c.out_bias || c.mlp_bias || c.qk_norm);
  EXPECT_EQ(c.dtype, c10::ScalarType::Float);
  EXPECT_TRUE(c.stop_ids.empty());
}

TEST(HfConfig, ReadsRopeInBothSpellings) {
  Json four = with("rope_scaling", R"({"type":"linear","factor":4.0})");
  four.set("rope_theta", 5e5);
  const Json five =
      with("rope_parameters", R"({"rope_type":"linear","factor":4.0,"rope_theta":500000.0})");
  for (const Json& config : {four, five}) {
    const RopeConfig rope = parse(config).rope;
    EXPECT_EQ(rope.type, "linear");
    EXPECT_EQ(rope.theta, 5e5);
    EXPECT_EQ(rope.factor, 4.0);
  }
  const RopeConfig three = parse(with("rope_scaling", R"({"rope_type":"llama3","factor":32.0,
    "low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192})"))
                               .rope;
  EXPECT_EQ(three.type, "llama3");
  EXPECT_EQ(three.factor, 32.0);
  EXPECT_EQ(three.original_max_length, 8192);
  EXPECT_EQ(parse(with("rope_scaling", "null")).rope.type, "default");
}

TEST(HfConfig, ReadsBothDtypeKeysAndBothEosForms) {
  EXPECT_EQ(parse(with("torch_dtype", "\"bfloat16\"")).dtype, c10::ScalarType::BFloat16);
  EXPECT_EQ(parse(with("dtype", "\"float16\"")).dtype, c10::ScalarType::Half);
  EXPECT_EQ(parse(with("eos_token_id", "7")).stop_ids, (std::vector<int32_t>{7}));
  EXPECT_EQ(parse(with("eos_token_id", "[7,9]")).stop_ids, (std::vector<int32_t>{7, 9}));
  EXPECT_EQ(parse(with("eos_token_id", "7"), parse_json(R"({"eos_token_id":[1,2]})", "g")).stop_ids,
            (std::vector<int32_t>{1, 2}));
}

TEST(HfConfig, NamesFileKeyAndValueOfWhatIsWrong) {
  EXPECT_EQ(message(with("hidden_size", "\"64\"")),
            "config.json: hidden_size is \"64\", it must be a positive integer");
  EXPECT_EQ(message(with("vocab_size", "0")),
            "config.json: vocab_size is 0, it must be a positive integer");
  EXPECT_EQ(message(with("vocab_size", "null")), "config.json: has no vocab_size");
  EXPECT_EQ(message(with("num_key_value_heads", "3")),
            "config.json: num_attention_heads (4) is no multiple of num_key_value_heads (3)");
  EXPECT_EQ(message(with("num_attention_heads", "7")),
            "config.json: hidden_size (64) is no multiple of num_attention_heads (7)");
  EXPECT_EQ(message(with("head_dim", "15")),
            "config.json: head_dim is 15, it must be even for rotary positions");
  for (const char* eps : {"-1", "0"}) {
    EXPECT_NE(message(with("rms_norm_eps", eps)).find("it must be a positive number"),
              std::string::npos);
  }
  EXPECT_EQ(message(with("attention_bias", "1")),
            "config.json: attention_bias is 1, it must be true or false");
  EXPECT_EQ(message(with("hidden_act", "\"gelu\"")),
            "config.json: hidden_act 'gelu' is not supported; it must be silu");
  EXPECT_EQ(message(with("torch_dtype", "\"int8\"")),
            "config.json: unknown dtype 'int8'; known are fp32, bf16, fp16");
  EXPECT_EQ(message(with("eos_token_id", "\"x\"")),
            "config.json: eos_token_id is \"x\", it must be an id or a list of ids");
  EXPECT_EQ(message(with("quantization_config", "{}")),
            "config.json: the weights are quantised; export them in a floating-point type first");
}

TEST(HfConfig, AnUnknownFamilyListsTheKnownOnes) {
  EXPECT_EQ(message(with("model_type", "\"mamba\"")),
            "config.json: model_type 'mamba' is not supported; supported are llama, qwen2, qwen3");
  EXPECT_EQ(message(Json::object()), "config.json: has no model_type");
  EXPECT_EQ(message(Json::array()), "config.json: is no JSON object");
}

TEST(HfConfig, AnUnknownRopeTypeIsRefusedByName) {
  EXPECT_EQ(
      message(with("rope_scaling", R"({"type":"yarn","factor":2.0})")),
      "config.json: rope_type 'yarn' is not supported; supported are default, linear, llama3");
  EXPECT_EQ(message(with("rope_scaling", R"({"type":"linear"})")),
            "config.json: rope_type 'linear' needs a factor");
  EXPECT_EQ(message(with("partial_rotary_factor", "0.5")),
            "config.json: partial_rotary_factor is not supported; it must be 1");
}

TEST(HfConfig, QwenFamiliesDifferWhereTheirPagesSayTheyDo) {
  Json two = with("model_type", "\"qwen2\"");
  EXPECT_TRUE(parse(two).qkv_bias);
  EXPECT_FALSE(parse(two).out_bias);
  two.set("use_sliding_window", true);
  EXPECT_EQ(message(two), "config.json: sliding-window attention is not supported");
  const ModelConfig three = parse(with("model_type", "\"qwen3\""));
  EXPECT_TRUE(three.qk_norm);
  EXPECT_FALSE(three.qkv_bias);
  EXPECT_EQ(three.head_dim, 128);  // not hidden / heads
}

}  // namespace xrun
