// config.json in both spellings, and refusals that name the key.

#include "core/model/weights/hf_config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/model/weights/families.h"
#include "core/model/weights/run_folder.h"
#include "tests/core/model/weights/config_json.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace xrun::hf_config_test {

namespace {

Json base() {
  return parse_json(R"({"model_type":"llama","hidden_size":64,"intermediate_size":128,
    "num_hidden_layers":2,"num_attention_heads":4,"vocab_size":100})",
                    "base");
}

Json with(const char* key, const char* json) { return changed(base(), key, json); }

}  // namespace

TEST(HfConfig, FillsTheDefaultsOfLlama) {
  const ModelConfig c = parse_config(base());
  EXPECT_EQ(c.kv_heads, 4);
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_EQ(c.max_length, 2048);
  EXPECT_EQ(c.norm_eps, 1e-6);
  EXPECT_EQ(c.rope.theta, 10000.0);
  EXPECT_EQ(c.rope.type, RopeConfig::Type::kDefault);
  EXPECT_FALSE(c.tied || c.qkv_bias || c.out_bias || c.mlp_bias);
  EXPECT_EQ(c.qk_norm, QkNorm::kNone);
  EXPECT_EQ(c.dtype, c10::ScalarType::Float);
  EXPECT_TRUE(c.stop_ids.empty());
}

TEST(HfConfig, ReadsRopeInBothSpellings) {
  Json four = with("rope_scaling", R"({"type":"linear","factor":4.0})");
  four.set("rope_theta", 5e5);
  const Json five =
      with("rope_parameters", R"({"rope_type":"linear","factor":4.0,"rope_theta":500000.0})");
  for (const Json& config : {four, five}) {
    const RopeConfig rope = parse_config(config).rope;
    EXPECT_EQ(rope.type, RopeConfig::Type::kLinear);
    EXPECT_EQ(rope.theta, 5e5);
    EXPECT_EQ(rope.factor, 4.0);
  }
  const RopeConfig three = parse_config(with("rope_scaling", R"({"rope_type":"llama3","factor":32.0,
    "low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192})"))
                               .rope;
  EXPECT_EQ(three.type, RopeConfig::Type::kLlama3);
  EXPECT_EQ(three.factor, 32.0);
  EXPECT_EQ(three.original_max_length, 8192);
  EXPECT_EQ(parse_config(with("rope_scaling", "null")).rope.type, RopeConfig::Type::kDefault);
}

TEST(HfConfig, ReadsBothDtypeKeysAndBothEosForms) {
  EXPECT_EQ(parse_config(with("torch_dtype", "\"bfloat16\"")).dtype, c10::ScalarType::BFloat16);
  EXPECT_EQ(parse_config(with("dtype", "\"float16\"")).dtype, c10::ScalarType::Half);
  EXPECT_EQ(parse_config(with("eos_token_id", "7")).stop_ids, (std::vector<int32_t>{7}));
  EXPECT_EQ(parse_config(with("eos_token_id", "[7,9]")).stop_ids, (std::vector<int32_t>{7, 9}));
  EXPECT_EQ(parse_config(with("eos_token_id", "7"), parse_json(R"({"eos_token_id":[1,2]})", "g"))
                .stop_ids,
            (std::vector<int32_t>{1, 2}));
}

TEST(HfConfig, AnErrorNamesFileKeyAndValue) {
  EXPECT_EQ(config_error(with("hidden_size", "\"64\"")),
            "config.json: hidden_size is \"64\", wanted a positive integer");
  EXPECT_EQ(config_error(with("vocab_size", "0")),
            "config.json: vocab_size is 0, wanted a positive integer");
  EXPECT_EQ(config_error(with("vocab_size", "null")), "config.json: has no vocab_size");
  EXPECT_EQ(config_error(with("num_key_value_heads", "3")),
            "config.json: num_attention_heads (4) is not a multiple of num_key_value_heads (3)");
  EXPECT_EQ(config_error(with("num_attention_heads", "7")),
            "config.json: hidden_size (64) is not a multiple of num_attention_heads (7)");
  EXPECT_EQ(config_error(with("head_dim", "15")),
            "config.json: head_dim is 15, wanted an even number for rotary positions");
  for (const char* eps : {"-1", "0"}) {
    EXPECT_NE(config_error(with("rms_norm_eps", eps)).find("wanted a positive number"),
              std::string::npos);
  }
  EXPECT_EQ(config_error(with("attention_bias", "1")),
            "config.json: attention_bias is 1, wanted true or false");
  EXPECT_EQ(config_error(with("torch_dtype", "\"int8\"")),
            "config.json: unknown dtype 'int8'; supported: fp32, bf16, fp16");
  EXPECT_EQ(config_error(with("eos_token_id", "\"x\"")),
            "config.json: eos_token_id is \"x\", wanted an id or a list of ids");
  EXPECT_EQ(config_error(with("quantization_config", "{}")),
            "config.json: the weights are quantised; export them in a floating-point type first");
}

TEST(HfConfig, AnUnknownFamilyListsTheKnownOnes) {
  EXPECT_EQ(config_error(with("model_type", "\"mamba\"")),
            "config.json: model_type 'mamba' is not supported; supported: gpt2, llama, "
            "olmo2, qwen2, qwen3, qwen3_moe");
  EXPECT_EQ(config_error(Json::object()), "config.json: has no model_type");
  EXPECT_EQ(config_error(Json::array()), "config.json: is not a JSON object");
}

TEST(HfConfig, AnUnknownRopeTypeIsRefusedByName) {
  EXPECT_EQ(config_error(with("rope_scaling", R"({"type":"spiral","factor":2.0})")),
            "config.json: rope_type 'spiral' is not supported; supported: default, linear, "
            "dynamic, yarn, longrope, llama3");
  EXPECT_EQ(config_error(with("rope_scaling", R"({"type":"linear"})")),
            "config.json: rope_type 'linear' needs a factor");
  EXPECT_EQ(config_error(with("partial_rotary_factor", "0.5")),
            "config.json: partial_rotary_factor is not supported; it must be 1");
}

TEST(HfConfig, QwenFamiliesHaveTheirDocumentedDefaults) {
  Json two = with("model_type", "\"qwen2\"");
  EXPECT_TRUE(parse_config(two).qkv_bias);
  EXPECT_FALSE(parse_config(two).out_bias);
  const ModelConfig three = parse_config(with("model_type", "\"qwen3\""));
  EXPECT_EQ(three.qk_norm, QkNorm::kPerHead);
  EXPECT_FALSE(three.qkv_bias);
  EXPECT_EQ(three.head_dim, 128);  // not hidden / heads
}

TEST(HfConfig, Olmo2NormsOutputsInPlaceOfInputs) {
  const ModelConfig c = parse_config(with("model_type", "\"olmo2\""));
  EXPECT_EQ(c.qk_norm, QkNorm::kAllHeads);
  EXPECT_EQ(c.norm_eps, 1e-5);
  EXPECT_FALSE(c.qkv_bias || c.out_bias);
  EXPECT_TRUE(c.names.attention_norm.empty() && c.names.ffn_norm.empty());
  EXPECT_EQ(c.names.attention_out_norm, "post_attention_layernorm");
  EXPECT_EQ(c.names.ffn_out_norm, "post_feedforward_layernorm");
}

TEST(HfConfig, YarnLongropeAndDynamicTakeTheirDefaultsFromTheFile) {
  Json yarn = with("rope_scaling",
                   R"({"type":"yarn","factor":null,"original_max_position_embeddings":512})");
  const RopeConfig y = parse_config(yarn).rope;
  EXPECT_EQ(y.factor, 4.0);  // 2048 / 512
  EXPECT_NEAR(y.attention_factor, 0.1 * std::log(4.0) + 1, 1e-12);
  EXPECT_EQ(y.beta_fast, 32.0);
  EXPECT_EQ(y.beta_slow, 1.0);
  EXPECT_TRUE(y.truncate);
  yarn.set("original_max_position_embeddings", int64_t{1024});  // the key above the nested one wins
  EXPECT_EQ(parse_config(yarn).rope.factor, 2.0);
  const RopeConfig l = parse_config(with("rope_parameters", R"({"rope_type":"longrope",
    "short_factor":[1,1,1,1,1,1,1,1],"long_factor":[1,2,3,4,5,6,7,8],
    "original_max_position_embeddings":256})"))
                           .rope;
  EXPECT_NEAR(l.attention_factor, std::sqrt(1 + std::log(8.0) / std::log(256.0)), 1e-12);
  EXPECT_EQ(
      parse_config(with("rope_scaling", R"({"type":"dynamic","factor":2.0})")).rope.max_length,
      2048);
}

TEST(HfConfig, InvalidRopeFactorsAreNamed) {
  EXPECT_EQ(
      config_error(with("rope_scaling", R"({"type":"longrope","factor":2.0,"long_factor":[1,2],
              "short_factor":[1,1]})")),
      "config.json: rope_scaling: short_factor has 2 numbers, wanted 8, half of head_dim");
  EXPECT_EQ(config_error(with("rope_scaling", R"({"type":"yarn","factor":0.5})")),
            "config.json: the rope factor is 0.5, wanted at least 1");
  EXPECT_EQ(
      config_error(with("rope_scaling", R"({"type":"yarn","factor":2.0,"attention_factor":0})")),
      "config.json: attention_factor is 0, wanted a positive number");
  EXPECT_EQ(
      config_error(with("rope_scaling", R"({"type":"llama3","factor":2.0,"low_freq_factor":5.0,
              "high_freq_factor":4.0,"original_max_position_embeddings":32})")),
      "config.json: rope_scaling: low_freq_factor must be positive and high_freq_factor above "
      "it; they contradict each other");
  EXPECT_EQ(config_error(with("rope_scaling", R"({"type":"llama3","factor":2.0})")),
            "config.json: rope_type 'llama3' needs an original_max_position_embeddings");
  EXPECT_EQ(
      config_error(with("rope_scaling", R"({"type":"llama3","factor":2.0,"low_freq_factor":1.0,
              "original_max_position_embeddings":32})")),
      "config.json: rope_scaling: rope_type 'llama3' needs a high_freq_factor");
}

TEST(HfConfig, AnUnknownActivationIsNamed) {
  EXPECT_EQ(config_error(with("hidden_act", "\"swoosh\"")),
            "config.json: hidden_act 'swoosh' is not supported; supported: silu, swish, "
            "gelu_new, gelu_pytorch_tanh, gelu, relu");
  EXPECT_EQ(parse_config(with("hidden_act", "\"gelu_pytorch_tanh\"")).activation,
            Activation::kGeluTanh);
}

TEST(HfConfig, RefusesAClassifier) {
  EXPECT_EQ(
      config_error(with("architectures", R"(["LlamaForSequenceClassification"])")),
      "config.json: architectures is [\"LlamaForSequenceClassification\"], which is not a causal "
      "language model; xrun.frozen opens it as a reward or value model");
  EXPECT_EQ(config_error(with("architectures", R"(["LlamaForCausalLM"])")), "");
}

TEST(HfConfig, AFrozenModelMayBeAClassifier) {
  const ScratchFolder folder;
  Json config = with("architectures", R"(["LlamaForSequenceClassification"])");
  const auto labels = [&] {
    write_file_atomic(folder.path() / "config.json", dump_json(config));
    return read_frozen_config(folder.path()).labels;
  };
  EXPECT_EQ(labels(), 2);  // as transformers
  config.set("num_labels", int64_t{3});
  EXPECT_EQ(labels(), 3);
  config.set("id2label", Json(Json::Object{{"0", "LABEL_0"}}));
  EXPECT_EQ(labels(), 1);
  EXPECT_EQ(read_frozen_config(folder.path()).names.head, "score");
  EXPECT_EQ(error_of([&] { read_model_config(folder.path()); }),
            (folder.path() / "config.json").string() +
                ": architectures is [\"LlamaForSequenceClassification\"], which is not a causal "
                "language model; xrun.frozen opens it as a reward or value model");
}

TEST(HfConfig, WindowsFollowLayerTypesElseMaxWindowLayers) {
  Json config = with("model_type", "\"qwen2\"");
  config.set("sliding_window", int64_t{7});
  config.set("max_window_layers", int64_t{1});
  EXPECT_TRUE(parse_config(config).windows.empty());
  config.set("use_sliding_window", true);
  EXPECT_EQ(parse_config(config).windows, (std::vector<int64_t>{0, 7}));
  config.set("layer_types", parse_json(R"(["sliding_attention","full_attention"])", "t"));
  EXPECT_EQ(parse_config(config).windows, (std::vector<int64_t>{7, 0}));
  config.set("use_sliding_window", false);
  EXPECT_NE(config_error(config).find("layer_types has sliding_attention, but"), std::string::npos);
  config.set("layer_types", parse_json(R"(["full_attention"])", "t"));
  EXPECT_EQ(config_error(config), "config.json: layer_types has 1 entries, num_hidden_layers is 2");
}

TEST(HfConfig, DropoutThatIsIgnoredIsNoted) {
  EXPECT_TRUE(parse_config(with("attention_dropout", "0.0")).notices.empty());
  EXPECT_EQ(
      parse_config(with("attention_dropout", "0.1")).notices,
      (std::vector<std::string>{"config.json: attention_dropout = 0.1 is ignored: the model is "
                                "trained without dropout"}));
}

TEST(HfConfig, ReadsTheKeysOfGpt2) {
  Json config = parse_json(R"({"model_type":"gpt2","architectures":["GPT2LMHeadModel"],"n_embd":48,
    "n_layer":3,"n_head":4,"n_positions":32,"vocab_size":100,"scale_attn_weights":false,
    "scale_attn_by_inverse_layer_idx":true,"activation_function":"gelu_new"})",
                           "gpt2");
  const ModelConfig c = parse_config(config);
  EXPECT_EQ(c.layers, 3);
  EXPECT_EQ(c.head_dim, 12);
  EXPECT_EQ(c.kv_heads, 4);
  EXPECT_EQ(c.ffn, 192);
  EXPECT_EQ(c.max_length, 32);
  EXPECT_EQ(c.norm_eps, 1e-5);
  EXPECT_EQ(c.norm, Norm::kLayer);
  EXPECT_EQ(c.positions, Positions::kLearned);
  EXPECT_EQ(c.activation, Activation::kGeluTanh);
  EXPECT_TRUE(c.tied && c.transposed && c.score_by_layer && !c.gated);
  EXPECT_EQ(c.score_scale, 1.0);
  config.set("n_head", int64_t{5});
  EXPECT_EQ(config_error(config), "config.json: n_embd (48) is not a multiple of n_head (5)");
  config.set("n_head", int64_t{16});  // an odd head size is legal without rotary positions
  EXPECT_EQ(parse_config(config).head_dim, 3);
}

// Settings of a run are in a config.json, too.
TEST(HfConfig, TheFolderOfARunNamesItsModel) {
  const std::filesystem::path run =
      std::filesystem::temp_directory_path() / fmt::format("xrun_run_{}", ::getpid());
  make_dirs(run / "hf");
  for (const char* name : {"config.json", "run.json"}) write_file_atomic(run / name, "{}");
  const auto refusal = [&]() -> std::string {
    try {
      read_model_config(run);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string is_run = run.string() + ": is the folder of a run; ";
  EXPECT_EQ(refusal(), is_run + "no model was exported yet");
  make_dirs(run / "checkpoints/step_0000040");
  write_file_atomic(run / "checkpoints/step_0000040/manifest.json", "{}");
  write_file_atomic(run / "checkpoints/latest", "step_0000040\n");
  const std::string exports = fmt::format(
      "no model was exported yet; to export the last save, of 40 steps, without training: xrun "
      "{0}/recipe.lua --run {0} --resume --steps 40",
      run.string());
  EXPECT_EQ(refusal(), is_run + exports);
  EXPECT_EQ(run_folder_text(run / "hf/"), exports);
  EXPECT_EQ(run_folder_text(run / "checkpoints/step_0000040"), exports);
  EXPECT_EQ(run_folder_text(run.parent_path()), "");
  // An edited recipe would be refused, so the run's copy is named.
  write_file_atomic(run / "recipe.lua", "-- a\n");
  write_file_atomic(run / "mine.lua", "-- a\n");
  write_file_atomic(
      run / "run.json",
      fmt::format(R"({{"recipe_file": "{}/mine.lua", "folder": "/"}})", run.string()));
  const std::string moved = run_folder_text(run);
  EXPECT_TRUE(moved.ends_with(
      fmt::format("cd / && xrun {0}/mine.lua --run {0} --resume --steps 40", run.string())))
      << moved;
  write_file_atomic(run / "mine.lua", "-- b\n");
  EXPECT_NE(run_folder_text(run).find("/recipe.lua --run"), std::string::npos);
  write_file_atomic(run / "hf/config.json", "{}");
  EXPECT_EQ(refusal(), is_run + "its model is " + (run / "hf").string());
  std::filesystem::remove_all(run);
}

}  // namespace xrun::hf_config_test
