// Qwen3-MoE: Qwen3 whose feed-forward is a mixture of experts in all layers, or in some.

#include <algorithm>

#include "core/base/error.h"
#include "core/model/weights/family.h"

namespace xrun {

namespace {

// transformers 5 writes num_local_experts, 4 num_experts.
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
    config.moe_layers.push_back(!named && (i + 1) % every == 0);
  }
}

void read_moe(const ConfigReader& reader, ModelConfig& config) {
  MoeConfig& moe = config.moe;
  moe.experts = read_expert_count(reader);
  moe.top_k = reader.integer("num_experts_per_tok");
  moe.ffn = reader.integer("moe_intermediate_size");
  if (moe.top_k > moe.experts) {
    reader.fail(
        fmt::format("num_experts_per_tok is {}, there are {} experts", moe.top_k, moe.experts));
  }
  if (!reader.has("norm_topk_prob")) {
    reader.fail("has no norm_topk_prob; checkpoints differ in it, so it must be true or false");
  }
  moe.renormalise = reader.flag("norm_topk_prob", false);
  if (config.activation != Activation::kSilu) reader.fail("experts need hidden_act 'silu'");
}

void read_qwen3_moe(const ConfigReader& reader, ModelConfig& config) {
  read_dense_decoder(reader, config);
  config.qkv_bias = config.out_bias = reader.flag("attention_bias", false);
  config.qk_norm = true;
  config.names.q_norm = "self_attn.q_norm";
  config.names.k_norm = "self_attn.k_norm";
  if (reader.flag("use_sliding_window", false) && reader.has("sliding_window")) {
    const int64_t window = reader.integer("sliding_window");
    config.windows.assign(static_cast<size_t>(config.layers), window);  // all layers slide
  }
  read_moe(reader, config);
  check_decoder(reader, config);
  read_moe_layers(reader, config);
}

const bool registered = register_family({"qwen3_moe", "Qwen3MoeForCausalLM", read_qwen3_moe});

}  // namespace

}  // namespace xrun
