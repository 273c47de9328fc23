// Matrices are normal, N(0, scale^2), each number a function of (seed, tensor, place); norms are 1.

#include "core/model/init_model.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include <cmath>
#include <numbers>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/philox.h"
#include "core/model/export.h"
#include "core/model/hf_config.h"
#include "core/model/new_folder.h"
#include "core/model/weight_layout.h"

namespace xrun {

namespace {

constexpr const char* kShape = "the model's shape";  // what stands for a file in messages

// Box-Muller on the two halves of 64 random bits.
at::Tensor normal_tensor(const std::vector<int64_t>& shape, double scale, uint64_t seed,
                         uint64_t tensor) {
  at::Tensor x = at::empty(shape, at::kFloat);
  float* const out = x.mutable_data_ptr<float>();
  const int64_t n = x.numel(), pairs = (n + 1) / 2;
  at::parallel_for(0, pairs, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const uint64_t bits = philox_u64(seed, kStreamInit, tensor, static_cast<uint64_t>(i));
      const double u = static_cast<double>((bits >> 32) + 1) * 0x1p-32;  // in (0, 1]
      const double v = static_cast<double>(bits & 0xffffffff) * 0x1p-32;
      const double radius = scale * std::sqrt(-2.0 * std::log(u));
      out[2 * i] = static_cast<float>(radius * std::cos(2 * std::numbers::pi * v));
      if (2 * i + 1 < n) {
        out[2 * i + 1] = static_cast<float>(radius * std::sin(2 * std::numbers::pi * v));
      }
    }
  });
  return x;
}

// null where there is none, or transformers would fill in an id of its own.
Json id_json(const char* key, int64_t id, int64_t vocab) {
  XRUN_CHECK(id < vocab, "{} is {}, outside a vocabulary of {}", key, id, vocab);
  return id < 0 ? Json() : Json(id);
}

Json config_json(const InitOptions& o) {
  return Json(Json::Object{
      {"architectures", Json(Json::Array{"LlamaForCausalLM"})},
      {"model_type", "llama"},
      {"vocab_size", o.vocab},
      {"hidden_size", o.hidden},
      {"intermediate_size", o.ffn},
      {"num_hidden_layers", o.layers},
      {"num_attention_heads", o.heads},
      {"num_key_value_heads", o.kv_heads},
      {"head_dim", o.hidden / std::max<int64_t>(o.heads, 1)},
      {"hidden_act", "silu"},
      {"max_position_embeddings", o.max_length},
      {"rms_norm_eps", 1e-5},
      {"rope_theta", o.rope_theta},
      {"attention_bias", false},
      {"mlp_bias", false},
      {"tie_word_embeddings", o.tied},
      {"initializer_range", o.scale},
      {"torch_dtype", dtype_name(o.dtype)},
      {"bos_token_id", id_json("bos_token_id", o.bos_id, o.vocab)},
      {"eos_token_id", id_json("eos_token_id", o.eos_id, o.vocab)},
      {"pad_token_id", id_json("pad_token_id", o.pad_id, o.vocab)},
  });
}

Json generation_json(const Json& config) {
  Json generation = Json::object();
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (const Json* id = config.find(key); id != nullptr && !id->is_null())
      generation.set(key, *id);
  }
  return generation;
}

std::vector<NamedTensor> random_weights(const ModelConfig& config, const InitOptions& options) {
  std::vector<NamedTensor> tensors;
  for (const WeightSpec& spec : weight_specs(config)) {
    const at::Tensor x = spec.shape.size() == 1 ? at::ones(spec.shape, at::kFloat)
                                                : normal_tensor(spec.shape, options.scale,
                                                                options.seed, tensors.size());
    tensors.push_back(stored_form(spec, x.to(options.dtype)));
  }
  return tensors;
}

}  // namespace

InitOptions init_preset(const std::string& name) {
  if (name == "tiny") {
    return {.layers = 4, .hidden = 256, .heads = 4, .kv_heads = 2, .ffn = 688, .vocab = 32000};
  }
  if (name == "mid") {
    return {.layers = 8, .hidden = 512, .heads = 8, .kv_heads = 4, .ffn = 1376, .vocab = 50000};
  }
  throw UsageError(fmt::format("there is no preset '{}'; there are tiny and mid", name));
}

void check_init_options(const InitOptions& options) {
  parse_model_config(config_json(options), Json::object(), kShape);
  XRUN_CHECK(options.hidden % options.heads == 0,
             "{}: hidden_size ({}) is no multiple of num_attention_heads ({})", kShape,
             options.hidden, options.heads);
}

void init_model(const std::filesystem::path& out, const InitOptions& options) {
  check_init_options(options);
  const Json config = config_json(options);
  const Json generation = generation_json(config);
  const ModelConfig parsed = parse_model_config(config, generation, kShape);
  NewFolder folder(out, /*replace=*/false);
  write_file_atomic(folder.path() / "config.json", dump_json(config, {.indent = 2}) + "\n");
  write_file_atomic(folder.path() / "generation_config.json",
                    dump_json(generation, {.indent = 2}) + "\n");
  if (!options.tokenizer.empty()) copy_tokenizer(options.tokenizer, folder.path());
  write_safetensors(folder.path() / "model.safetensors", random_weights(parsed, options),
                    {{"format", "pt"}});
  folder.commit();
}

}  // namespace xrun
