#pragma once
// Where the roles of a decoder lie among its parameters.

#include <cstdint>
#include <vector>

namespace xrun {

struct ModelConfig;
struct Parameter;

// A linear map or a norm, as places among the parameters; -1 where the model has none.
struct WeightPlace {
  int64_t weight = -1, bias = -1;
  int64_t low_a = -1, low_b = -1;  // the factors of an adapter
};

struct BlockPlaces {
  WeightPlace input_norm, post_norm;
  WeightPlace qkv, q, k, v, o, q_norm, k_norm;  // qkv, or q, k and v
  WeightPlace gate, up, down;
  WeightPlace router;                             // of a MoE layer, as are the next
  int64_t expert_gate_up = -1, expert_down = -1;  // [E, 2 I, D], [E, D, I]
};

struct DecoderPlaces {
  WeightPlace embedding, positions, final_norm, head;  // a tied head is the embedding
  std::vector<BlockPlaces> blocks;                     // [layers]
};

// Finds the parameters that the config's names mean. A role without a name has none.
DecoderPlaces weight_places(const ModelConfig& config, const std::vector<Parameter>& parameters);

}  // namespace xrun
