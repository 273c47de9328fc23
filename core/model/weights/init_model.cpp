// Matrices are N(0, scale^2), each number a function of (seed, tensor, index); norms are 1, biases
// 0.

#include "core/model/weights/init_model.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/philox.h"
#include "core/model/weights/export.h"
#include "core/model/weights/families.h"
#include "core/model/weights/hf_config.h"
#include "core/model/weights/staged_folder.h"
#include "core/model/weights/weight_layout.h"

namespace xrun {

namespace {

constexpr const char* kShape = "the model's shape";  // in place of a file name in messages

// Returns null for no id: without the key transformers would fill in its own default.
Json id_json(const char* key, int64_t id, int64_t vocab) {
  XRUN_CHECK(id < vocab, "{} is {}, outside a vocabulary of {}", key, id, vocab);
  return id < 0 ? Json() : Json(id);
}

// The keys of Llama and its relatives.
void set_decoder(Json& json, const InitOptions& o) {
  json.set("vocab_size", o.vocab);
  json.set("hidden_size", o.hidden);
  json.set("intermediate_size", o.ffn);
  json.set("num_hidden_layers", o.layers);
  json.set("num_attention_heads", o.heads);
  json.set("num_key_value_heads", o.kv_heads);
  // max(1): zero heads are refused by the check that follows.
  json.set("head_dim", o.head_dim != 0 ? o.head_dim : o.hidden / std::max<int64_t>(o.heads, 1));
  json.set("hidden_act", "silu");
  json.set("max_position_embeddings", o.max_length);
  json.set("rms_norm_eps", 1e-5);
  json.set("rope_theta", o.rope_theta);
  json.set("attention_bias", false);
}

void set_experts(Json& json, const InitOptions& o) {
  json.set("num_experts", o.experts);
  json.set("num_experts_per_tok", o.top_k);
  json.set("moe_intermediate_size", o.expert_ffn);
  json.set("norm_topk_prob", true);
  // Every layer has experts.
  json.set("decoder_sparse_step", 1);
  json.set("mlp_only_layers", Json(Json::Array{}));
  json.set("use_sliding_window", false);
}

void set_gpt2(Json& json, const InitOptions& o) {
  XRUN_CHECK(o.kv_heads == o.heads, "gpt2 has as many key heads as heads; wanted {}, not {}",
             o.heads, o.kv_heads);
  json.set("vocab_size", o.vocab);
  json.set("n_embd", o.hidden);
  json.set("n_inner", o.ffn);
  json.set("n_layer", o.layers);
  json.set("n_head", o.heads);
  json.set("n_positions", o.max_length);
  json.set("activation_function", "gelu_new");
  json.set("layer_norm_epsilon", 1e-5);
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) json.set(key, 0.0);
}

// Returns the config.json of a new model in the keys of the options' family. Throws Error if an id
// is outside the vocabulary or the family is unknown.
Json init_config(const InitOptions& o) {
  const std::string& architecture = family_named(o.family, kShape).architecture;
  Json json = Json::object();
  json.set("architectures", Json(Json::Array{architecture}));
  json.set("model_type", o.family);
  if (o.family == "gpt2") {
    set_gpt2(json, o);
  } else {
    set_decoder(json, o);
    if (o.family == "llama") json.set("mlp_bias", false);
    if (o.family == "qwen3_moe") set_experts(json, o);
  }
  json.set("tie_word_embeddings", o.tied);
  json.set("initializer_range", o.scale);
  json.set("torch_dtype", dtype_name(o.dtype));
  json.set("bos_token_id", id_json("bos_token_id", o.bos_id, o.vocab));
  json.set("eos_token_id", id_json("eos_token_id", o.eos_id, o.vocab));
  json.set("pad_token_id", id_json("pad_token_id", o.pad_id, o.vocab));
  return json;
}

// Box-Muller on the two halves of 64 random bits.
at::Tensor normal_tensor(const std::vector<int64_t>& shape, double scale, uint64_t seed,
                         uint64_t tensor) {
  at::Tensor x = at::empty(shape, at::kFloat);
  float* const out = x.mutable_data_ptr<float>();
  const int64_t n = x.numel(), pairs = (n + 1) / 2;
  at::parallel_for(0, pairs, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const uint64_t bits = philox_u64(seed, kStreamInit, tensor, static_cast<uint64_t>(i));
      // + 1: the logarithm of 0 must not occur.
      const double u = static_cast<double>((bits >> 32) + 1) * 0x1p-32;  // in (0, 1]
      const double v = static_cast<double>(bits & 0xffffffff) * 0x1p-32;
      const double radius = scale * std::sqrt(-2.0 * std::log(u));
      // Each pair of numbers comes from one counter, so threads may divide the work anywhere.
      out[2 * i] = static_cast<float>(radius * std::cos(2 * std::numbers::pi * v));
      if (2 * i + 1 < n) {
        out[2 * i + 1] = static_cast<float>(radius * std::sin(2 * std::numbers::pi * v));
      }
    }
  });
  return x;
}

// Only the ids: sampling settings are the recipe's.
Json generation_json(const Json& config) {
  Json generation = Json::object();
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (const Json* id = config.find(key); id != nullptr && !id->is_null())
      generation.set(key, *id);
  }
  return generation;
}

at::Tensor initial(const WeightSpec& spec, const InitOptions& options, uint64_t number) {
  if (spec.shape.size() > 1) return normal_tensor(spec.shape, options.scale, options.seed, number);
  // Vectors are the weights of norms, or biases.
  return spec.name.ends_with(".bias") ? at::zeros(spec.shape, at::kFloat)
                                      : at::ones(spec.shape, at::kFloat);
}

std::vector<NamedTensor> random_weights(const ModelConfig& config, const InitOptions& options) {
  std::vector<NamedTensor> tensors;
  uint64_t number = 0;
  for (const WeightSpec& spec : weight_specs(config)) {
    // Numbered in the order of weight_specs: a weight's values depend on its position, not on
    // threads.
    const at::Tensor x = initial(spec, options, number++).to(options.dtype);
    for (NamedTensor& stored : stored_form(spec, x)) tensors.push_back(std::move(stored));
  }
  return tensors;
}

}  // namespace

// Shapes for tests and first runs, not for training.
InitOptions init_preset(const std::string& name) {
  // ffn is 8/3 of the width, rounded up to a multiple of 16.
  const InitOptions tiny{
      .layers = 4, .hidden = 256, .heads = 4, .kv_heads = 2, .ffn = 688, .vocab = 32000};
  const auto mixture = [&](int64_t experts, int64_t top_k, int64_t expert_ffn) {
    InitOptions options = tiny;
    options.family = "qwen3_moe";
    options.experts = experts;
    options.top_k = top_k;
    options.expert_ffn = expert_ffn;
    return options;
  };
  if (name == "tiny") return tiny;
  if (name == "mid") {
    return {.layers = 8, .hidden = 512, .heads = 8, .kv_heads = 4, .ffn = 1376, .vocab = 50000};
  }
  if (name == "moe-1") return mixture(1, 1, 512);
  if (name == "moe-8") return mixture(8, 2, 128);
  if (name == "moe-64") return mixture(64, 8, 128);
  if (name == "gpt2-tiny") {
    return {.family = "gpt2",
            .layers = 4,
            .hidden = 256,
            .heads = 4,
            .kv_heads = 4,
            .ffn = 1024,
            .vocab = 32000};
  }
  throw UsageError(fmt::format(
      "there is no preset '{}'; there are tiny, mid, moe-1, moe-8, moe-64 and gpt2-tiny", name));
}

// Refuses what parse_model_config() would refuse, before a folder is made.
void check_init_options(const InitOptions& options) {
  parse_model_config(init_config(options), Json::object(), kShape);
  // Without a head_dim the config rounds hidden / heads down.
  XRUN_CHECK(options.head_dim != 0 || options.hidden % options.heads == 0,
             "{}: hidden_size ({}) is not a multiple of num_attention_heads ({})", kShape,
             options.hidden, options.heads);
}

std::string init_digest(const InitOptions& options) {
  check_init_options(options);
  constexpr const char* kVersion = "1";  // changes if the same options give other weights
  // config.json has the sizes, the type and the scale.
  Hasher hasher;
  hasher.field("version", kVersion).field("config", dump_json(init_config(options)));
  hasher.field("seed", std::to_string(options.seed));
  if (!options.tokenizer.empty()) {
    for (const std::string& name : tokenizer_files(options.tokenizer)) {
      hasher.field(name, hash_file(options.tokenizer / name));
    }
  }
  return hasher.hex();
}

void init_model(const std::filesystem::path& out, const InitOptions& options) {
  check_init_options(options);
  const Json config = init_config(options);
  const Json generation = generation_json(config);
  const ModelConfig parsed = parse_model_config(config, generation, kShape);
  StagedFolder folder(out, /*replace=*/false);
  write_file_atomic(folder.path() / "config.json", dump_json(config, kIndentedJson) + "\n");
  write_file_atomic(folder.path() / "generation_config.json",
                    dump_json(generation, kIndentedJson) + "\n");
  if (!options.tokenizer.empty()) copy_tokenizer(options.tokenizer, folder.path());
  write_safetensors(folder.path() / "model.safetensors", random_weights(parsed, options),
                    {{"format", "pt"}});
  folder.commit();
}

}  // namespace xrun
