// Llama 1 to 3.2 and what shares its architecture (SmolLM2, TinyLlama).

#include "core/model/weights/family.h"

namespace xrun {

namespace {

void read_llama(const ConfigReader& reader, ModelConfig& config) {
  read_dense_decoder(reader, config);
  config.qkv_bias = config.out_bias = reader.flag("attention_bias", false);
  config.mlp_bias = reader.flag("mlp_bias", false);
}

const bool registered = register_family({"llama", "LlamaForCausalLM", read_llama});

}  // namespace

}  // namespace xrun
