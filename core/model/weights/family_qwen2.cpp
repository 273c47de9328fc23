// Qwen2 and Qwen2.5: Llama with biases on q, k and v, which no key announces.

#include "core/model/weights/family.h"

namespace xrun {

namespace {

void read_qwen2(const ConfigReader& reader, ModelConfig& config) {
  read_dense_decoder(reader, config);
  read_windows(reader, config);
  config.qkv_bias = true;
}

const bool registered = register_family({"qwen2", "Qwen2ForCausalLM", read_qwen2});

}  // namespace

}  // namespace xrun
