#include "core/model/init_config.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/model/weights/family.h"
#include "core/model/weights/hf_config.h"
#include "core/model/init_model.h"

namespace xrun {

namespace {

// null where there is none, or transformers would fill in an id of its own.
Json id_json(const char* key, int64_t id, int64_t vocab) {
  XRUN_CHECK(id < vocab, "{} is {}, outside a vocabulary of {}", key, id, vocab);
  return id < 0 ? Json() : Json(id);
}

// The keys of Llama and Qwen.
void set_decoder(Json& json, const InitOptions& o) {
  json.set("vocab_size", o.vocab);
  json.set("hidden_size", o.hidden);
  json.set("intermediate_size", o.ffn);
  json.set("num_hidden_layers", o.layers);
  json.set("num_attention_heads", o.heads);
  json.set("num_key_value_heads", o.kv_heads);
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

}  // namespace

Json init_config(const InitOptions& o) {
  const std::string& architecture = family_named(o.family, "the model's shape").architecture;
  Json json = Json::object();
  json.set("architectures", Json(Json::Array{architecture}));
  json.set("model_type", o.family);
  if (o.family == "gpt2") {
    set_gpt2(json, o);
  } else if (o.family == "llama") {
    set_decoder(json, o);
    json.set("mlp_bias", false);
  } else if (o.family == "qwen3_moe") {
    set_decoder(json, o);
    set_experts(json, o);
  } else {
    throw Error(fmt::format("new models are llama, qwen3_moe or gpt2, not {}", o.family));
  }
  json.set("tie_word_embeddings", o.tied);
  json.set("initializer_range", o.scale);
  json.set("torch_dtype", dtype_name(o.dtype));
  json.set("bos_token_id", id_json("bos_token_id", o.bos_id, o.vocab));
  json.set("eos_token_id", id_json("eos_token_id", o.eos_id, o.vocab));
  json.set("pad_token_id", id_json("pad_token_id", o.pad_id, o.vocab));
  return json;
}

}  // namespace xrun
