#pragma once
// config.json of a Hugging Face folder, in the spellings of transformers 4 and 5.

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/model/ops/rope.h"

namespace xrun {

enum class Norm { kRms, kLayer };
enum class Positions { kRotary, kLearned };
enum class QkNorm { kNone, kPerHead, kAllHeads };
enum class Activation { kSilu, kGeluTanh, kGelu, kRelu };

// Mixture of experts; experts = 0: none.
struct MoeConfig {
  int64_t experts = 0, top_k = 0, ffn = 0;  // ffn: width of one expert
  bool renormalise = false;                 // norm_topk_prob
};

// The names of a decoder's roles in its checkpoint. `layer` has {} for the index and is the prefix
// of a layer's names. An empty name: the family has no such weight.
struct WeightNames {
  std::string embedding = "model.embed_tokens", positions, final_norm = "model.norm",
              head = "lm_head", layer = "model.layers.{}.";
  // Norms of the input of attention and feed-forward, and of their output before it is added.
  std::string attention_norm = "input_layernorm", ffn_norm = "post_attention_layernorm",
              attention_out_norm, ffn_out_norm;
  std::string q = "self_attn.q_proj", k = "self_attn.k_proj", v = "self_attn.v_proj", qkv,
              o = "self_attn.o_proj", q_norm, k_norm;
  std::string gate = "mlp.gate_proj", up = "mlp.up_proj", down = "mlp.down_proj";
  std::string router = "mlp.gate", experts = "mlp.experts";  // of MoE layers
  std::string prefix;  // optional in a file, always written ("transformer.")
  // suffixes of tensors that are ignored
  std::vector<std::string> buffers = {".rotary_emb.inv_freq"};
};

// A decoder as data, filled by its family (families.h). D = hidden, K = head_dim.
struct ModelConfig {
  std::string model_type;
  int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0;
  int64_t labels = 0;      // a classifier's, scored by its head; 0: a language model
  int64_t max_length = 0;  // max_position_embeddings; of learned positions a hard limit
  Norm norm = Norm::kRms;
  double norm_eps = 1e-6;
  QkNorm qk_norm = QkNorm::kNone;  // RMSNorm of q and k before RoPE
  Positions positions = Positions::kRotary;
  RopeConfig rope;
  Activation activation = Activation::kSilu;
  bool gated = true;  // down(act(gate) * up); else down(act(up))
  bool qkv_bias = false, out_bias = false, mlp_bias = false;
  bool transposed = false;      // linear maps are [in, out] in the file
  bool tied = false;            // the head is the embedding
  double score_scale = 0;       // of q k^T; 0: head_dim^-1/2
  bool score_by_layer = false;  // divided by layer index + 1 as well
  // [layers] tokens that a row sees, including itself; 0: all; empty: all
  std::vector<int64_t> windows;
  MoeConfig moe;
  std::vector<uint8_t> moe_layers;  // [layers]; empty: dense
  WeightNames names;
  std::vector<std::string> notices;  // printed once: ignored dropout keys
  // of the checkpoint, as config.json says; Model::load asks the files if it does not
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<int32_t> stop_ids;  // eos of generation_config.json, else of config.json
  Json source;                    // config.json as read, for export

  bool is_moe(int64_t layer) const {
    return !moe_layers.empty() && moe_layers[static_cast<size_t>(layer)] != 0;
  }
  int64_t window(int64_t layer) const {
    return windows.empty() ? 0 : windows[static_cast<size_t>(layer)];
  }
};

// Reads DIR/config.json and generation_config.json. Throws Error that names file and key for a
// missing, mistyped or contradictory value, an unknown model_type (listing the families), rope type
// or activation, architectures that are not a causal language model, and a mixture of experts
// without norm_topk_prob.
ModelConfig read_model_config(const std::filesystem::path& dir);
// Reads the configuration of a frozen model, which may also be a sequence classifier.
// Throws as read_model_config does for everything else.
ModelConfig read_frozen_config(const std::filesystem::path& dir);

// Returns what read_model_config reads, from parsed JSON; `name` begins messages.
ModelConfig parse_model_config(const Json& config, const Json& generation, const std::string& name);

// Converts between types and config.json's names ("float32", "bfloat16", "float16"; also f32, fp32,
// bf16, ...).
std::string dtype_name(c10::ScalarType dtype);
c10::ScalarType dtype_from_name(const std::string& name);

}  // namespace xrun
