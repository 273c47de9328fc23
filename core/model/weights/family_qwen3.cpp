// Qwen3, dense: RMSNorm of q and k per head, a head size of its own.

#include "core/model/weights/family.h"

namespace xrun {

namespace {

void read_qwen3(const ConfigReader& reader, ModelConfig& config) {
  read_dense_decoder(reader, config, /*head_dim=*/128);
  read_windows(reader, config);
  config.qkv_bias = config.out_bias = reader.flag("attention_bias", false);
  config.qk_norm = true;
  config.names.q_norm = "self_attn.q_norm";
  config.names.k_norm = "self_attn.k_norm";
}

const bool registered = register_family({"qwen3", "Qwen3ForCausalLM", read_qwen3});

}  // namespace

}  // namespace xrun
