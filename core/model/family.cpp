#include "core/model/family.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/suggest.h"

namespace xrun {

namespace {

std::vector<Family>& families() {
  static std::vector<Family> all;  // filled before main, in no particular order of files
  return all;
}

// rope_parameters (transformers 5), or rope_theta and rope_scaling (4).
RopeConfig read_rope(const ConfigReader& reader, int64_t max_length) {
  const bool five = reader.has("rope_parameters");
  const ConfigReader nested = reader.object(five ? "rope_parameters" : "rope_scaling");
  RopeConfig rope;
  rope.theta = nested.number("rope_theta", reader.number("rope_theta", 10000.0));
  if (!(rope.theta > 0) || !std::isfinite(rope.theta)) reader.fail("rope_theta must be positive");
  rope.type = nested.text("rope_type", nested.text("type", "default"));
  if (nested.number("partial_rotary_factor", reader.number("partial_rotary_factor", 1.0)) != 1.0) {
    reader.fail("partial_rotary_factor is not supported; it must be 1");
  }
  if (rope.type == "default") return rope;
  if (rope.type != "linear" && rope.type != "llama3") {
    reader.fail(fmt::format(
        "rope_type '{}' is not supported; supported are default, linear, llama3", rope.type));
  }
  if (!nested.has("factor")) reader.fail(fmt::format("rope_type '{}' needs a factor", rope.type));
  rope.factor = nested.number("factor", 1.0);
  rope.low_freq_factor = nested.number("low_freq_factor", 1.0);
  rope.high_freq_factor = nested.number("high_freq_factor", 4.0);
  rope.original_max_length = nested.integer("original_max_position_embeddings", max_length);
  if (!(rope.factor >= 1.0) || !(rope.high_freq_factor > rope.low_freq_factor)) {
    reader.fail(
        "the rope factors contradict each other: factor must be at least 1, "
        "high_freq_factor above low_freq_factor");
  }
  return rope;
}

void check_sizes(const ConfigReader& reader, const ModelConfig& config) {
  constexpr int64_t kMost = int64_t{1} << 31;  // keeps every product of two sizes within 64 bits
  for (const int64_t size : {config.layers, config.hidden, config.heads, config.kv_heads,
                             config.head_dim, config.ffn, config.vocab, config.max_length}) {
    if (size < 1 || size >= kMost) reader.fail(fmt::format("a size of {} is out of range", size));
  }
  if (config.heads % config.kv_heads != 0) {
    reader.fail(fmt::format("num_attention_heads ({}) is no multiple of num_key_value_heads ({})",
                            config.heads, config.kv_heads));
  }
  if (config.head_dim % 2 != 0) {
    reader.fail(
        fmt::format("head_dim is {}, it must be even for rotary positions", config.head_dim));
  }
}

}  // namespace

const Json* ConfigReader::find(const char* key) const {
  const Json* value = json_.find(key);
  return value != nullptr && value->is_null() ? nullptr : value;
}

bool ConfigReader::has(const char* key) const { return find(key) != nullptr; }

void ConfigReader::fail(const std::string& message) const {
  throw Error(fmt::format("{}: {}", name_, message));
}

int64_t ConfigReader::integer(const char* key) const {
  if (!has(key)) fail(fmt::format("has no {}", key));
  return integer(key, 0);
}

int64_t ConfigReader::integer(const char* key, int64_t otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_int() || value->as_int() < 1) {
    fail(fmt::format("{} is {}, it must be a positive integer", key, dump_json(*value)));
  }
  return value->as_int();
}

double ConfigReader::number(const char* key, double otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number())
    fail(fmt::format("{} is {}, it must be a number", key, dump_json(*value)));
  return value->as_double();
}

bool ConfigReader::flag(const char* key, bool otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_bool()) {
    fail(fmt::format("{} is {}, it must be true or false", key, dump_json(*value)));
  }
  return value->as_bool();
}

std::string ConfigReader::text(const char* key, const std::string& otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_string())
    fail(fmt::format("{} is {}, it must be a string", key, dump_json(*value)));
  return value->as_string();
}

ConfigReader ConfigReader::object(const char* key) const {
  static const Json kEmpty = Json::object();
  const Json* value = find(key);
  if (value == nullptr) return ConfigReader(kEmpty, name_);
  if (!value->is_object())
    fail(fmt::format("{} is {}, it must be an object", key, dump_json(*value)));
  return ConfigReader(*value, fmt::format("{}: {}", name_, key));
}

bool register_family(Family family) {
  families().push_back(std::move(family));
  return true;
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Family& family : families()) names.push_back(family.model_type);
  std::sort(names.begin(), names.end());
  return names;
}

const Family& family_named(const std::string& model_type, const std::string& name) {
  for (const Family& family : families()) {
    if (family.model_type == model_type) return family;
  }
  std::string known;
  for (const std::string& n : family_names()) known += (known.empty() ? "" : ", ") + n;
  throw Error(fmt::format("{}: model_type '{}' is not supported; supported are {}", name,
                          model_type, known));
}

void read_dense_decoder(const ConfigReader& reader, ModelConfig& config) {
  config.layers = reader.integer("num_hidden_layers");
  config.hidden = reader.integer("hidden_size");
  config.heads = reader.integer("num_attention_heads");
  config.kv_heads = reader.integer("num_key_value_heads", config.heads);
  if (!reader.has("head_dim") && config.hidden % config.heads != 0) {
    reader.fail(fmt::format("hidden_size ({}) is no multiple of num_attention_heads ({})",
                            config.hidden, config.heads));
  }
  config.head_dim = reader.integer("head_dim", config.hidden / config.heads);
  config.ffn = reader.integer("intermediate_size");
  config.vocab = reader.integer("vocab_size");
  config.max_length = reader.integer("max_position_embeddings", 2048);
  config.norm_eps = reader.number("rms_norm_eps", 1e-6);
  if (!(config.norm_eps > 0) || !std::isfinite(config.norm_eps)) {
    reader.fail(fmt::format("rms_norm_eps is {}, it must be a positive number", config.norm_eps));
  }
  config.tied = reader.flag("tie_word_embeddings", false);
  config.rope = read_rope(reader, config.max_length);
  const std::string act = reader.text("hidden_act", "silu");
  if (act != "silu")
    reader.fail(fmt::format("hidden_act '{}' is not supported; it must be silu", act));
  if (reader.has("quantization_config")) {
    reader.fail("the weights are quantised; export them in a floating-point type first");
  }
  check_sizes(reader, config);
}

void refuse_sliding_window(const ConfigReader& reader) {
  bool slides = reader.flag("use_sliding_window", false);
  if (const Json* types = reader.json().find("layer_types");
      types != nullptr && types->is_array()) {
    for (const Json& type : types->as_array()) slides |= type == Json("sliding_attention");
  }
  if (slides) reader.fail("sliding-window attention is not supported");
}

std::vector<WeightSpec> weight_specs(const ModelConfig& c) {
  std::vector<WeightSpec> specs;
  const auto matrix = [&](const std::string& name, int64_t out, int64_t in, bool bias) {
    specs.push_back({name + ".weight", {out, in}});
    if (bias) specs.push_back({name + ".bias", {out}});
  };
  const int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  matrix("model.embed_tokens", c.vocab, c.hidden, false);
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    specs.push_back({layer + "input_layernorm.weight", {c.hidden}});
    matrix(layer + "self_attn.q_proj", q, c.hidden, c.qkv_bias);
    matrix(layer + "self_attn.k_proj", kv, c.hidden, c.qkv_bias);
    matrix(layer + "self_attn.v_proj", kv, c.hidden, c.qkv_bias);
    if (c.qk_norm) {
      specs.push_back({layer + "self_attn.q_norm.weight", {c.head_dim}});
      specs.push_back({layer + "self_attn.k_norm.weight", {c.head_dim}});
    }
    matrix(layer + "self_attn.o_proj", c.hidden, q, c.out_bias);
    specs.push_back({layer + "post_attention_layernorm.weight", {c.hidden}});
    matrix(layer + "mlp.gate_proj", c.ffn, c.hidden, c.mlp_bias);
    matrix(layer + "mlp.up_proj", c.ffn, c.hidden, c.mlp_bias);
    matrix(layer + "mlp.down_proj", c.hidden, c.ffn, c.mlp_bias);
  }
  specs.push_back({"model.norm.weight", {c.hidden}});
  if (!c.tied) matrix("lm_head", c.vocab, c.hidden, false);
  return specs;
}

}  // namespace xrun
