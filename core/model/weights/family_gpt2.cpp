// GPT-2: LayerNorm, learned positions, q, k and v in one map, linear maps stored [in, out].

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/model/weights/family.h"

namespace xrun {

namespace {

WeightNames gpt2_names() {
  WeightNames names;
  names.prefix = "transformer.";
  names.embedding = "transformer.wte";
  names.positions = "transformer.wpe";
  names.final_norm = "transformer.ln_f";
  names.layer = "transformer.h.{}.";
  names.input_norm = "ln_1";
  names.post_norm = "ln_2";
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
        fmt::format("n_embd ({}) is no multiple of n_head ({})", config.hidden, config.heads));
  }
  config.head_dim = config.hidden / config.heads;
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
  if (!reader.flag("scale_attn_weights", true)) config.score_scale = 1.0;
  config.score_by_layer = reader.flag("scale_attn_by_inverse_layer_idx", false);
  if (reader.flag("add_cross_attention", false)) reader.fail("cross-attention is not supported");
  ignore_dropout(reader, {"resid_pdrop", "embd_pdrop", "attn_pdrop"}, config);
  config.names = gpt2_names();
  check_decoder(reader, config);
}

const bool registered = register_family({"gpt2", "GPT2LMHeadModel", read_gpt2});

}  // namespace

}  // namespace xrun
