#pragma once
// The weights of a decoder: which parameter has each role, and its values in the compute type.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "core/model/ops/matrix_product.h"

namespace xrun {

struct ModelConfig;
struct Parameter;
class IncomingWeights;
class RangedWeights;

// Indices of the parameters of a linear map or a norm; -1 where the model has none.
struct WeightIndex {
  int64_t weight = -1, bias = -1;
  int64_t low_a = -1, low_b = -1;  // the factors of an adapter
};

struct BlockIndex {
  WeightIndex attention_norm, ffn_norm, attention_out_norm, ffn_out_norm;
  WeightIndex qkv, q, k, v, o, q_norm, k_norm;  // qkv, or q, k and v
  WeightIndex gate, up, down;
  WeightIndex router;                             // of a MoE layer, as are the experts
  int64_t expert_gate_up = -1, expert_down = -1;  // [E, 2 I, D], [E, D, I]
};

struct DecoderIndex {
  WeightIndex embedding, positions, final_norm, head;  // a tied head is the embedding
  std::vector<BlockIndex> blocks;                      // [layers]
};

// Finds the parameters of each role by the names that the config gives them. A role without a name
// has none.
DecoderIndex decoder_index(const ModelConfig& config, const std::vector<Parameter>& parameters);

// Copies of the weights of linear maps, in a layout that is fast for products of few rows, as in
// decoding. They take as much memory as these weights in fp32.
class PackedWeights {
 public:
  bool empty() const { return !storage_.defined(); }
  int64_t update_count() const { return update_count_; }
  // Returns a parameter's weight, null if it is not packed.
  const PackedMatrix* find(int64_t parameter) const;

  // Packs the weights of an update count. Later calls must have the same parameters and shapes;
  // they reuse the memory of the first.
  void pack(const std::vector<int64_t>& parameters, const std::vector<at::Tensor>& weights,
            int64_t update_count);

 private:
  at::Tensor storage_;
  std::vector<PackedMatrix> matrices_;  // by parameter
  int64_t update_count_ = -1;
};

// The weights in the compute type: the masters, or copies that are refreshed when the update count
// has changed. Not thread-safe.
class ComputeWeights {
 public:
  //   ranged  holds the first `ranged_count` parameters, those of the base; null: all are whole
  ComputeWeights(const std::vector<Parameter>& masters, at::ScalarType compute,
                 RangedWeights* ranged, size_t ranged_count);

  // Returns the weight of the master with this index. If it is a copy and gradients are enabled,
  // its backward passes the gradient to the master, in the master's type.
  at::Tensor get(size_t index, int64_t update_count);
  // Drops all copies. Needed when masters have changed and the count may not have.
  void forget();
  bool holds_ranges() const { return ranged_ != nullptr; }
  void keep_fetched(bool keep);  // RangedWeights::keep_all; does nothing if all are whole
  // From now on, waits for a master that is still to arrive before reading it.
  void add_incoming(std::shared_ptr<IncomingWeights> incoming);
  void await_all() const;  // returns once every master has arrived

 private:
  struct WeightCopy {
    at::Tensor tensor;
    int64_t update_count = -1;
  };
  const std::vector<Parameter>& masters_;
  at::ScalarType compute_;
  RangedWeights* ranged_;
  size_t ranged_count_;  // parameters
  std::vector<WeightCopy> copies_;
  std::vector<std::shared_ptr<IncomingWeights>> incoming_;  // of each optimizer
};

}  // namespace xrun
