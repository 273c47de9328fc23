// Matrices are normal, N(0, scale^2), each number a function of (seed, tensor, place); norms are 1,
// biases 0.

#include "core/model/init_model.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <numbers>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/philox.h"
#include "core/model/export.h"
#include "core/model/weights/hf_config.h"
#include "core/model/init_config.h"
#include "core/model/weights/new_folder.h"
#include "core/model/weights/weight_layout.h"

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

Json generation_json(const Json& config) {
  Json generation = Json::object();
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (const Json* id = config.find(key); id != nullptr && !id->is_null())
      generation.set(key, *id);
  }
  return generation;
}

at::Tensor initial(const WeightSpec& spec, const InitOptions& options, uint64_t place) {
  if (spec.shape.size() > 1) return normal_tensor(spec.shape, options.scale, options.seed, place);
  return spec.name.ends_with(".bias") ? at::zeros(spec.shape, at::kFloat)
                                      : at::ones(spec.shape, at::kFloat);
}

std::vector<NamedTensor> random_weights(const ModelConfig& config, const InitOptions& options) {
  std::vector<NamedTensor> tensors;
  uint64_t place = 0;
  for (const WeightSpec& spec : weight_specs(config)) {
    const at::Tensor x = initial(spec, options, place++).to(options.dtype);
    for (NamedTensor& stored : stored_form(spec, x)) tensors.push_back(std::move(stored));
  }
  return tensors;
}

}  // namespace

InitOptions init_preset(const std::string& name) {
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

void check_init_options(const InitOptions& options) {
  parse_model_config(init_config(options), Json::object(), kShape);
  XRUN_CHECK(options.head_dim != 0 || options.hidden % options.heads == 0,
             "{}: hidden_size ({}) is no multiple of num_attention_heads ({})", kShape,
             options.hidden, options.heads);
}

void init_model(const std::filesystem::path& out, const InitOptions& options) {
  check_init_options(options);
  const Json config = init_config(options);
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
