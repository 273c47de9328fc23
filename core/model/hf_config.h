#pragma once
// config.json of a Hugging Face folder, in the spellings of transformers 4 and 5.

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/json.h"

namespace xrun {

// Rotary positions: theta, and what stretches them.
struct RopeConfig {
  std::string type = "default";  // "default", "linear", "llama3"
  double theta = 10000.0;
  double factor = 1.0;                                   // linear, llama3
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // llama3
  int64_t original_max_length = 8192;                    // llama3
};

// A dense decoder as data; families fill it (family.h). D = hidden, K = head_dim.
struct ModelConfig {
  std::string model_type;
  int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0;
  int64_t max_length = 0;  // max_position_embeddings
  double norm_eps = 1e-6;
  RopeConfig rope;
  bool qkv_bias = false, out_bias = false, mlp_bias = false;
  bool qk_norm = false;                            // RMSNorm of q and k per head, before RoPE
  bool tied = false;                               // the head is the embedding
  c10::ScalarType dtype = c10::ScalarType::Float;  // of the checkpoint, as config.json says
  std::vector<int32_t> stop_ids;  // eos of generation_config.json, else of config.json
  Json source;                    // config.json as read, for export
};

// Reads DIR/config.json and generation_config.json. Throws Error that names file and key for a
// missing, mistyped or contradictory value, an unknown model_type (listing the families) or an
// unknown rope type.
ModelConfig read_model_config(const std::filesystem::path& dir);

// The same from parsed JSON; `name` stands in messages.
ModelConfig parse_model_config(const Json& config, const Json& generation, const std::string& name);

// "float32", "bfloat16", "float16" as config.json spells them, and back (fp32, bf16, fp16 too).
std::string dtype_name(c10::ScalarType dtype);
c10::ScalarType dtype_from_name(const std::string& name);

}  // namespace xrun
