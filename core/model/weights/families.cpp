// One reader of config.json per model_type, listed in kFamilies. A reader sets the fields of
// ModelConfig whose defaults are not right for its family.

#include "core/model/weights/families.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/model/weights/rope_config.h"

namespace xrun {

namespace {

constexpr std::pair<const char*, Activation> kActivations[] = {
    {"silu", Activation::kSilu},         {"swish", Activation::kSilu},
    {"gelu_new", Activation::kGeluTanh}, {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"gelu", Activation::kGelu},         {"relu", Activation::kRelu},
};

// Throws Error that lists the known activations.
Activation read_activation(const ConfigReader& reader, const char* key,
                           const std::string& otherwise) {
  const std::string name = reader.text(key, otherwise);
  std::string known;
  for (const auto& [spelled, activation] : kActivations) {
    if (name == spelled) return activation;
    add_item(known, spelled);
  }
  reader.fail(fmt::format("{} '{}' is not supported; supported: {}", key, name, known));
}

// The epsilon of the norms; must be a positive number.
double read_norm_eps(const ConfigReader& reader, const char* key, double otherwise) {
  const double eps = reader.number(key, otherwise);
  if (!(eps > 0) || !std::isfinite(eps)) {
    reader.fail(fmt::format("{} is {}, wanted a positive number", key, eps));
  }
  return eps;
}

// Adds a notice for those of the keys that ask for dropout.
void ignore_dropout(const ConfigReader& reader, const std::vector<const char*>& keys,
                    ModelConfig& config) {
  std::string asked;
  for (const char* key : keys) {
    const double dropout = reader.number(key, 0);
    if (dropout > 0) add_item(asked, fmt::format("{} = {}", key, dropout));
  }
  if (asked.empty()) return;
  config.notices.push_back(
      fmt::format("{}: {} is ignored: the model is trained without dropout", reader.name(), asked));
}

// Throws Error if a size is out of range, sizes do not fit each other, or the weights are
// quantised. Every reader calls it last.
void check_decoder(const ConfigReader& reader, const ModelConfig& config) {
  constexpr int64_t kMaxSize = int64_t{1} << 31;  // keeps every product of two sizes within 64 bits
  // max(1): a dense model has no experts' width.
  for (const int64_t size :
       {config.layers, config.hidden, config.heads, config.kv_heads, config.head_dim, config.ffn,
        config.vocab, config.max_length, std::max<int64_t>(config.moe.ffn, 1)}) {
    if (size < 1 || size >= kMaxSize)
      reader.fail(fmt::format("a size of {} is out of range", size));
  }
  // A name is made for each layer and expert before any weight is looked up, so their number is
  // limited first.
  constexpr int64_t kMaxParts = 1 << 16;
  constexpr int64_t kMaxExperts = 1 << 15;  // TokenRoutes holds their indices in 16 bits
  const int64_t experts = config.moe.experts;
  if (config.layers > kMaxParts || experts > kMaxExperts ||
      config.layers * experts > 16 * kMaxParts) {
    reader.fail(fmt::format("{} layers of {} experts are out of range", config.layers, experts));
  }
  if (config.heads % config.kv_heads != 0) {
    reader.fail(
        fmt::format("num_attention_heads ({}) is not a multiple of num_key_value_heads ({})",
                    config.heads, config.kv_heads));
  }
  // RoPE turns pairs of dimensions.
  if (config.positions == Positions::kRotary && config.head_dim % 2 != 0) {
    reader.fail(
        fmt::format("head_dim is {}, wanted an even number for rotary positions", config.head_dim));
  }
  if (reader.has("quantization_config")) {
    reader.fail("the weights are quantised; export them in a floating-point type first");
  }
}

// Reads the keys that Llama and its relatives share: sizes, norm, rope, activation.
//   head_dim  where the file has none; 0: hidden / heads
void read_dense_decoder(const ConfigReader& reader, ModelConfig& config, int64_t head_dim = 0) {
  config.layers = reader.integer("num_hidden_layers");
  config.hidden = reader.integer("hidden_size");
  config.heads = reader.integer("num_attention_heads");
  // Files older than grouped heads have no such key.
  config.kv_heads = reader.integer("num_key_value_heads", config.heads);
  if (!reader.has("head_dim") && head_dim == 0 && config.hidden % config.heads != 0) {
    reader.fail(fmt::format("hidden_size ({}) is not a multiple of num_attention_heads ({})",
                            config.hidden, config.heads));
  }
  // head_dim need not be hidden / heads: Qwen3's is larger.
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

// Sliding windows, layer by layer: as layer_types says, else from max_window_layers on. Throws
// Error that names the key of a contradiction.
void read_windows(const ConfigReader& reader, ModelConfig& config) {
  const Json* types = reader.json().find("layer_types");
  const bool listed = types != nullptr && types->is_array();
  // The default of transformers' Qwen2Config.
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
    // Without layer_types the first max_window_layers layers see everything.
    const bool slides = listed ? type == Json("sliding_attention") : i >= first;
    if (listed && !slides && type != Json("full_attention")) {
      reader.fail(fmt::format("layer_types holds {}; supported: full_attention, sliding_attention",
                              dump_json(type)));
    }
    if (listed && slides && !asked) {
      reader.fail(
          "layer_types has sliding_attention, but use_sliding_window or sliding_window "
          "turns it off");
    }
    windows.push_back(slides ? window : 0);
  }
  // Without a window the list stays empty, and every layer sees everything.
  if (asked) config.windows = std::move(windows);
}

// Llama 1 to 3.2 and models of the same architecture (SmolLM2, TinyLlama).
void read_llama(const ConfigReader& reader, ModelConfig& config) {
  read_dense_decoder(reader, config);
  config.qkv_bias = config.out_bias = reader.flag("attention_bias", false);
  config.mlp_bias = reader.flag("mlp_bias", false);
}

// Qwen2 and Qwen2.5: Llama with biases on q, k and v, which config.json does not mention.
void read_qwen2(const ConfigReader& reader, ModelConfig& config) {
  read_dense_decoder(reader, config);
  read_windows(reader, config);
  config.qkv_bias = true;
}

// RMSNorm of q and k per head.
void read_qwen3_attention(const ConfigReader& reader, ModelConfig& config) {
  config.qkv_bias = config.out_bias = reader.flag("attention_bias", false);
  config.qk_norm = QkNorm::kPerHead;
  config.names.q_norm = "self_attn.q_norm";
  config.names.k_norm = "self_attn.k_norm";
}

// Qwen3, dense: a head size of 128 by default.
void read_qwen3(const ConfigReader& reader, ModelConfig& config) {
  read_dense_decoder(reader, config, /*head_dim=*/128);
  read_windows(reader, config);
  read_qwen3_attention(reader, config);
}

// OLMo-2: norms of the outputs of attention and feed-forward in place of their inputs, and of q and
// k over all heads. In bf16 transformers rounds its norms once, after the weight; here they are
// rounded before it as well, as in the other families.
void read_olmo2(const ConfigReader& reader, ModelConfig& config) {
  read_dense_decoder(reader, config);
  config.norm_eps = read_norm_eps(reader, "rms_norm_eps", 1e-5);
  config.qkv_bias = config.out_bias = reader.flag("attention_bias", false);
  config.qk_norm = QkNorm::kAllHeads;
  config.names.q_norm = "self_attn.q_norm";
  config.names.k_norm = "self_attn.k_norm";
  config.names.attention_norm = config.names.ffn_norm = "";
  config.names.attention_out_norm = "post_attention_layernorm";
  config.names.ffn_out_norm = "post_feedforward_layernorm";
}

// Qwen3-MoE: Qwen3 with a mixture of experts as feed-forward in some or all layers.

// transformers 5 writes num_local_experts, transformers 4 num_experts.
int64_t read_expert_count(const ConfigReader& reader) {
  if (!reader.has("num_experts")) return reader.integer("num_local_experts");
  const int64_t experts = reader.integer("num_experts");
  if (const int64_t local = reader.integer("num_local_experts", experts); local != experts) {
    reader.fail(fmt::format("num_experts is {}, num_local_experts {}: they contradict each other",
                            experts, local));
  }
  return experts;
}

// A layer is dense if mlp_only_layers names it or decoder_sparse_step does not divide its number.
void read_moe_layers(const ConfigReader& reader, ModelConfig& config) {
  const int64_t every = reader.integer("decoder_sparse_step", 1);
  const std::vector<double> dense = reader.numbers("mlp_only_layers");
  for (int64_t i = 0; i < config.layers; ++i) {
    const bool named = std::find(dense.begin(), dense.end(), static_cast<double>(i)) != dense.end();
    // Layers count from 1 for the step, from 0 in the list, as in transformers.
    config.moe_layers.push_back(!named && (i + 1) % every == 0);
  }
}

// Qwen3-MoE's keys; other families of experts have others.
void read_moe(const ConfigReader& reader, ModelConfig& config) {
  MoeConfig& moe = config.moe;
  moe.experts = read_expert_count(reader);
  moe.top_k = reader.integer("num_experts_per_tok");
  moe.ffn = reader.integer("moe_intermediate_size");
  if (moe.top_k > moe.experts) {
    reader.fail(
        fmt::format("num_experts_per_tok is {}, there are {} experts", moe.top_k, moe.experts));
  }
  // No default: a wrong guess would change the weight of every expert.
  if (!reader.has("norm_topk_prob")) {
    reader.fail("has no norm_topk_prob; checkpoints differ in it, so it must be true or false");
  }
  moe.renormalise = reader.flag("norm_topk_prob", false);
  if (config.activation != Activation::kSilu) reader.fail("experts need hidden_act 'silu'");
}

void read_qwen3_moe(const ConfigReader& reader, ModelConfig& config) {
  read_dense_decoder(reader, config);
  read_qwen3_attention(reader, config);
  if (reader.flag("use_sliding_window", false) && reader.has("sliding_window")) {
    const int64_t window = reader.integer("sliding_window");
    config.windows.assign(static_cast<size_t>(config.layers), window);  // all layers slide
  }
  read_moe(reader, config);
  // Again, since the experts are known now.
  check_decoder(reader, config);
  // Last: it makes an entry for each layer, and check_decoder has limited their number.
  read_moe_layers(reader, config);
}

// GPT-2: LayerNorm, learned positions, q, k and v in one map, linear maps stored [in, out].

// GPT-2's names predate the common ones, so all of them are set.
WeightNames gpt2_names() {
  WeightNames names;
  names.prefix = "transformer.";
  names.embedding = "transformer.wte";
  names.positions = "transformer.wpe";
  names.final_norm = "transformer.ln_f";
  names.layer = "transformer.h.{}.";
  names.attention_norm = "ln_1";
  names.ffn_norm = "ln_2";
  names.q = names.k = names.v = names.gate = "";
  names.qkv = "attn.c_attn";
  names.o = "attn.c_proj";
  names.up = "mlp.c_fc";
  names.down = "mlp.c_proj";
  names.buffers = {".attn.bias", ".attn.masked_bias"};  // causal masks of old files
  return names;
}

void read_gpt2(const ConfigReader& reader, ModelConfig& config) {
  config.layers = reader.integer("n_layer");
  config.hidden = reader.integer("n_embd");
  config.heads = config.kv_heads = reader.integer("n_head");
  if (config.hidden % config.heads != 0) {
    reader.fail(
        fmt::format("n_embd ({}) is not a multiple of n_head ({})", config.hidden, config.heads));
  }
  config.head_dim = config.hidden / config.heads;
  // No overflow here; check_decoder refuses the size.
  config.ffn = reader.integer("n_inner", 4 * std::min(config.hidden, INT64_MAX / 4));
  config.vocab = reader.integer("vocab_size");
  config.max_length = reader.integer("n_positions", 1024);
  config.norm = Norm::kLayer;
  config.norm_eps = read_norm_eps(reader, "layer_norm_epsilon", 1e-5);
  config.positions = Positions::kLearned;
  config.activation = read_activation(reader, "activation_function", "gelu_new");
  config.gated = false;
  config.qkv_bias = config.out_bias = config.mlp_bias = config.transposed = true;
  config.tied = reader.flag("tie_word_embeddings", true);
  // 1 in place of 1 / sqrt(head_dim).
  if (!reader.flag("scale_attn_weights", true)) config.score_scale = 1.0;
  // Divides the scores of layer i by i + 1.
  config.score_by_layer = reader.flag("scale_attn_by_inverse_layer_idx", false);
  if (reader.flag("add_cross_attention", false)) reader.fail("cross-attention is not supported");
  ignore_dropout(reader, {"resid_pdrop", "embd_pdrop", "attn_pdrop"}, config);
  config.names = gpt2_names();
  check_decoder(reader, config);
}

constexpr ModelFamily kFamilies[] = {
    {"gpt2", "GPT2LMHeadModel", read_gpt2},
    {"llama", "LlamaForCausalLM", read_llama},  // also SmolLM2, TinyLlama
    {"olmo2", "Olmo2ForCausalLM", read_olmo2},
    {"qwen2", "Qwen2ForCausalLM", read_qwen2},
    {"qwen3", "Qwen3ForCausalLM", read_qwen3},
    {"qwen3_moe", "Qwen3MoeForCausalLM", read_qwen3_moe},
};

}  // namespace

const ModelFamily& family_named(const std::string& model_type, const std::string& name) {
  std::string known;
  for (const ModelFamily& family : kFamilies) {
    if (model_type == family.model_type) return family;
    add_item(known, family.model_type);
  }
  throw Error(
      fmt::format("{}: model_type '{}' is not supported; supported: {}", name, model_type, known));
}

}  // namespace xrun
