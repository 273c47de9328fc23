// GGUF's llama layout interleaves the rotary pairs of q and k: row 2i + j of a head is row
// i + j K/2 of the half-split form (j = 0, 1). Everything else is renamed and decoded to fp32.

#include "core/model/weights/gguf_import.h"

#include <ATen/core/Tensor.h>
#include <fmt/ranges.h>

#include <map>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/interrupt.h"
#include "core/base/json.h"
#include "core/model/weights/gguf.h"
#include "core/model/weights/gguf_keys.h"
#include "core/model/weights/gguf_tokenizer.h"
#include "core/model/weights/hf_config.h"
#include "core/model/weights/staged_folder.h"
#include "core/model/weights/weight_layout.h"

namespace xrun {

namespace {

// Refuses files that would load and then compute something else.
void check_supported(const GgufFile& file, const GgufKeys& keys) {
  const Json* architecture = file.find("general.architecture");
  XRUN_CHECK(architecture != nullptr && architecture->is_string(),
             "{}: has no general.architecture", keys.where());
  XRUN_CHECK(architecture->as_string() == "llama",
             "{}: general.architecture is \"{}\"; only llama is imported", keys.where(),
             architecture->as_string());
  // 0 means a dense model.
  if (const Json* experts = keys.find("expert_count"); experts != nullptr) {
    XRUN_CHECK(experts->is_int() && experts->as_int() == 0,
               "{}: llama.expert_count is {}; mixtures of experts are not imported", keys.where(),
               dump_json(*experts));
  }
  if (const Json* scaling = keys.find("rope.scaling.type"); scaling != nullptr) {
    XRUN_CHECK(scaling->is_string() && scaling->as_string() == "none",
               "{}: llama.rope.scaling.type is {}; scaled positions are not imported", keys.where(),
               dump_json(*scaling));
  }
  // Llama 3.1's scaling is a tensor in GGUF, not a key.
  XRUN_CHECK(file.find_tensor("rope_freqs.weight") == nullptr,
             "{}: holds rope_freqs.weight; models with scaled positions (Llama 3.1 and later) are "
             "not imported, take their Hugging Face folder",
             keys.where());
}

// The config.json that transformers would have written for this model.
Json make_config(const GgufFile& file, const GgufKeys& keys, const TokenizerFiles& tokenizer) {
  const int64_t hidden = keys.size("embedding_length"), heads = keys.size("attention.head_count");
  const int64_t kv_heads = keys.size("attention.head_count_kv", heads);
  XRUN_CHECK(hidden % heads == 0 && heads % kv_heads == 0,
             "{}: llama.embedding_length {}, attention.head_count {} and head_count_kv {} do not "
             "divide each other",
             keys.where(), hidden, heads, kv_heads);
  const int64_t head_dim = keys.size("attention.key_length", hidden / heads);
  const int64_t rotated = keys.size("rope.dimension_count", head_dim);
  // The interleaving below is undone for whole heads only.
  XRUN_CHECK(head_dim % 2 == 0 && rotated == head_dim,
             "{}: {} of {} dimensions of a head are rotated (llama.rope.dimension_count); all must "
             "be",
             keys.where(), rotated, head_dim);
  Json::Object config = {
      {"architectures", Json(Json::Array{"LlamaForCausalLM"})},
      {"model_type", "llama"},
      {"attention_bias", false},
      {"attention_dropout", 0.0},
      {"head_dim", head_dim},
      {"hidden_act", "silu"},
      {"hidden_size", hidden},
      {"initializer_range", 0.02},
      {"intermediate_size", keys.size("feed_forward_length")},
      {"max_position_embeddings", keys.size("context_length")},
      {"mlp_bias", false},
      {"num_attention_heads", heads},
      {"num_hidden_layers", keys.size("block_count")},
      {"num_key_value_heads", kv_heads},
      {"rms_norm_eps", keys.number("attention.layer_norm_rms_epsilon", 1e-5)},
      {"rope_scaling", nullptr},
      {"rope_theta", keys.number("rope.freq_base", 10000.0)},
      // GGUF files of models with a tied head leave the head out.
      {"tie_word_embeddings", file.find_tensor("output.weight") == nullptr},
      {"torch_dtype", "float32"},
      {"use_cache", true},
      {"vocab_size", tokenizer.vocab},
  };
  for (const auto& [key, id] : tokenizer.special_ids) config.emplace_back(key, id);
  return Json(std::move(config));
}

// "model.layers.3.self_attn.q_proj.weight" -> "blk.3.attn_q.weight".
std::string gguf_name(const std::string& name) {
  // Llama's names in both formats; weight_specs lists no others for this config.
  static const std::map<std::string, std::string, std::less<>> kWhole = {
      {"model.embed_tokens.weight", "token_embd.weight"},
      {"model.norm.weight", "output_norm.weight"},
      {"lm_head.weight", "output.weight"}};
  static const std::map<std::string, std::string, std::less<>> kLayer = {
      {"input_layernorm.weight", "attn_norm.weight"},
      {"post_attention_layernorm.weight", "ffn_norm.weight"},
      {"self_attn.q_proj.weight", "attn_q.weight"},
      {"self_attn.k_proj.weight", "attn_k.weight"},
      {"self_attn.v_proj.weight", "attn_v.weight"},
      {"self_attn.o_proj.weight", "attn_output.weight"},
      {"mlp.gate_proj.weight", "ffn_gate.weight"},
      {"mlp.up_proj.weight", "ffn_up.weight"},
      {"mlp.down_proj.weight", "ffn_down.weight"}};
  if (const auto found = kWhole.find(name); found != kWhole.end()) return found->second;
  constexpr std::string_view kPrefix = "model.layers.";
  const size_t dot = name.find('.', kPrefix.size());
  return "blk." + name.substr(kPrefix.size(), dot - kPrefix.size()) + "." +
         kLayer.at(name.substr(dot + 1));
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// Throws one Error that lists the missing, misshapen and unexpected tensors, the first few by name.
void check_tensors(const GgufFile& file, const std::vector<WeightSpec>& specs) {
  std::vector<std::string> wrong;
  std::map<std::string, bool> wanted;
  for (const WeightSpec& spec : specs) {
    const std::string name = gguf_name(spec.name);
    wanted[name] = true;
    const GgufTensor* tensor = file.find_tensor(name);
    if (tensor == nullptr) {
      wrong.push_back(name + " is missing");
    } else if (tensor->shape != spec.shape) {
      wrong.push_back(fmt::format("{} has shape {}, wanted {}", name, shape_text(tensor->shape),
                                  shape_text(spec.shape)));
    }
  }
  for (const GgufTensor& tensor : file.tensors()) {
    if (!wanted.contains(tensor.name)) wrong.push_back(tensor.name + " is unexpected");
  }
  if (wrong.empty()) return;
  constexpr size_t kShown = 8;
  std::string list;
  for (size_t i = 0; i < wrong.size() && i < kShown; ++i) list += "\n  " + wrong[i];
  if (wrong.size() > kShown) list += fmt::format("\n  and {} more", wrong.size() - kShown);
  throw Error(
      fmt::format("{}: the tensors do not fit its llama.* keys:{}", file.path().string(), list));
}

// Undoes the interleaving of the rows of `heads` heads.
at::Tensor half_split(const at::Tensor& rows, int64_t heads) {
  const int64_t head_dim = rows.size(0) / heads;
  // [H, K/2, 2, D] -> [H, 2, K/2, D]
  return rows.view({heads, head_dim / 2, 2, rows.size(1)})
      .transpose(1, 2)
      .contiguous()
      .view(rows.sizes());
}

GgufImport write_weights(const GgufFile& file, const ModelConfig& config,
                         const std::filesystem::path& path) {
  const std::vector<WeightSpec> specs = weight_specs(config);
  check_tensors(file, specs);
  GgufImport report;
  // All decoded weights stay in memory until the file is written.
  std::vector<NamedTensor> tensors;
  for (const WeightSpec& spec : specs) {
    check_interrupt();
    at::Tensor values = file.read(*file.find_tensor(gguf_name(spec.name)));
    // Only q and k are rotated, so only their rows are interleaved.
    if (spec.name.ends_with("q_proj.weight")) values = half_split(values, config.heads);
    if (spec.name.ends_with("k_proj.weight")) values = half_split(values, config.kv_heads);
    report.tensors += 1;
    report.parameters += values.numel();
    tensors.push_back({spec.name, std::move(values)});
  }
  write_safetensors(path, tensors, {{"format", "pt"}});
  return report;
}

Json generation_config(const TokenizerFiles& tokenizer) {
  Json config = Json::object();
  for (const auto& [key, id] : tokenizer.special_ids) config.set(key, id);
  return config;
}

}  // namespace

GgufImport import_gguf(const std::filesystem::path& file, const std::filesystem::path& out) {
  // Refuses `out` before the file is read.
  StagedFolder folder(out, false);
  const GgufFile source(file);
  const GgufKeys keys(source, "llama.");
  check_supported(source, keys);
  const TokenizerFiles tokenizer = tokenizer_from_gguf(source, keys.size("context_length"));
  const Json config = make_config(source, keys, tokenizer);
  const Json generation = generation_config(tokenizer);
  // Read as any folder's config: the export must load again.
  const ModelConfig parsed = parse_model_config(config, generation, keys.where());

  GgufImport report = write_weights(source, parsed, folder.path() / "model.safetensors");
  report.vocab = tokenizer.vocab;
  JsonStyle pretty;
  pretty.indent = 2;
  pretty.key_separator = ": ";
  const auto write = [&](const char* name, const Json& json, const JsonStyle& style) {
    write_file_atomic(folder.path() / name, dump_json(json, style) + "\n");
  };
  write("config.json", config, pretty);
  write("generation_config.json", generation, pretty);
  write("tokenizer.json", tokenizer.tokenizer, {});
  write("tokenizer_config.json", tokenizer.config, pretty);
  folder.commit();
  return report;
}

}  // namespace xrun
