#include "core/model/weights/family.h"

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

constexpr std::pair<const char*, Activation> kActivations[] = {
    {"silu", Activation::kSilu},         {"swish", Activation::kSilu},
    {"gelu_new", Activation::kGeluTanh}, {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"gelu", Activation::kGelu},         {"relu", Activation::kRelu},
};

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

std::vector<double> ConfigReader::numbers(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) return {};
  std::vector<double> list;
  if (!value->is_array()) fail(fmt::format("{} must be a list of numbers", key));
  for (const Json& number : value->as_array()) {
    if (!number.is_number()) {
      fail(fmt::format("{} holds {}, it must be a list of numbers", key, dump_json(number)));
    }
    list.push_back(number.as_double());
  }
  return list;
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

Activation read_activation(const ConfigReader& reader, const char* key,
                           const std::string& otherwise) {
  const std::string name = reader.text(key, otherwise);
  std::string known;
  for (const auto& [spelled, activation] : kActivations) {
    if (name == spelled) return activation;
    known += (known.empty() ? "" : ", ") + std::string(spelled);
  }
  reader.fail(fmt::format("{} '{}' is not supported; supported are {}", key, name, known));
}

double read_norm_eps(const ConfigReader& reader, const char* key, double otherwise) {
  const double eps = reader.number(key, otherwise);
  if (!(eps > 0) || !std::isfinite(eps)) {
    reader.fail(fmt::format("{} is {}, it must be a positive number", key, eps));
  }
  return eps;
}

void ignore_dropout(const ConfigReader& reader, const std::vector<const char*>& keys,
                    ModelConfig& config) {
  std::string asked;
  for (const char* key : keys) {
    const double dropout = reader.number(key, 0);
    if (dropout > 0) asked += fmt::format("{}{} = {}", asked.empty() ? "" : ", ", key, dropout);
  }
  if (asked.empty()) return;
  config.notices.push_back(
      fmt::format("{}: {} is ignored: the model is trained without dropout", reader.name(), asked));
}

void read_dense_decoder(const ConfigReader& reader, ModelConfig& config, int64_t head_dim) {
  config.layers = reader.integer("num_hidden_layers");
  config.hidden = reader.integer("hidden_size");
  config.heads = reader.integer("num_attention_heads");
  config.kv_heads = reader.integer("num_key_value_heads", config.heads);
  if (!reader.has("head_dim") && head_dim == 0 && config.hidden % config.heads != 0) {
    reader.fail(fmt::format("hidden_size ({}) is no multiple of num_attention_heads ({})",
                            config.hidden, config.heads));
  }
  config.head_dim =
      reader.integer("head_dim", head_dim != 0 ? head_dim : config.hidden / config.heads);
  config.ffn = reader.integer("intermediate_size");
  config.vocab = reader.integer("vocab_size");
  config.max_length = reader.integer("max_position_embeddings", 2048);
  config.norm_eps = read_norm_eps(reader, "rms_norm_eps", 1e-6);
  config.tied = reader.flag("tie_word_embeddings", false);
  config.activation = read_activation(reader, "hidden_act", "silu");
  config.rope = read_rope(reader, config.max_length, config.head_dim);
  ignore_dropout(reader, {"attention_dropout"}, config);
  check_decoder(reader, config);
}

void read_windows(const ConfigReader& reader, ModelConfig& config) {
  const Json* types = reader.json().find("layer_types");
  const bool listed = types != nullptr && types->is_array();
  const double first = reader.number("max_window_layers", 28);
  const bool asked = reader.flag("use_sliding_window", false) && reader.has("sliding_window");
  const int64_t window = asked ? reader.integer("sliding_window") : 0;
  if (listed && std::ssize(types->as_array()) != config.layers) {
    reader.fail(fmt::format("layer_types has {} entries, num_hidden_layers is {}",
                            types->as_array().size(), config.layers));
  }
  std::vector<int64_t> windows;
  for (int64_t i = 0; i < config.layers; ++i) {
    const Json type = listed ? types->as_array()[static_cast<size_t>(i)] : Json();
    const bool slides = listed ? type == Json("sliding_attention") : i >= first;
    if (listed && !slides && type != Json("full_attention")) {
      reader.fail(fmt::format("layer_types holds {}, known are full_attention, sliding_attention",
                              dump_json(type)));
    }
    if (listed && slides && !asked) {
      reader.fail(
          "layer_types has sliding_attention, but use_sliding_window or sliding_window "
          "says that there is none");
    }
    windows.push_back(slides ? window : 0);
  }
  if (asked) config.windows = std::move(windows);
}

void check_decoder(const ConfigReader& reader, const ModelConfig& config) {
  constexpr int64_t kMost = int64_t{1} << 31;  // keeps every product of two sizes within 64 bits
  for (const int64_t size :
       {config.layers, config.hidden, config.heads, config.kv_heads, config.head_dim, config.ffn,
        config.vocab, config.max_length, std::max<int64_t>(config.moe.ffn, 1)}) {
    if (size < 1 || size >= kMost) reader.fail(fmt::format("a size of {} is out of range", size));
  }
  // Names are made a layer and an expert, before any weight is looked for.
  constexpr int64_t kMostParts = 1 << 16;
  const int64_t experts = config.moe.experts;
  if (std::max(config.layers, experts) > kMostParts || config.layers * experts > 16 * kMostParts) {
    reader.fail(fmt::format("{} layers of {} experts are out of range", config.layers, experts));
  }
  if (config.heads % config.kv_heads != 0) {
    reader.fail(fmt::format("num_attention_heads ({}) is no multiple of num_key_value_heads ({})",
                            config.heads, config.kv_heads));
  }
  if (config.positions == Positions::kRotary && config.head_dim % 2 != 0) {
    reader.fail(
        fmt::format("head_dim is {}, it must be even for rotary positions", config.head_dim));
  }
  if (reader.has("quantization_config")) {
    reader.fail("the weights are quantised; export them in a floating-point type first");
  }
}

}  // namespace xrun
