// Roles are looked up by name among the parameters: a role of the config plus ".weight", ".bias" or
// a factor's name. A copy is stale once the update count has changed.

#include "core/model/decoder_weights.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <string>
#include <unordered_map>

#include "core/model/incoming_weights.h"
#include "core/model/model.h"
#include "core/model/weights/adapter.h"

namespace xrun {

namespace {

// The forward returns the existing copy, which shares no graph with the master. The backward
// returns the gradient in the master's type.
class WeightCopyFunction : public torch::autograd::Function<WeightCopyFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& master,
                            const at::Tensor& copy) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->saved_data["type"] = master.scalar_type();
    return copy.detach();
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    return {grads[0].to(ctx->saved_data["type"].toScalarType()), {}};
  }
};

// Parameter numbers by name.
class ParameterNames {
 public:
  explicit ParameterNames(const std::vector<Parameter>& parameters) {
    for (const Parameter& parameter : parameters) {
      index_.emplace(parameter.name, static_cast<int64_t>(index_.size()));
    }
  }
  // `before` is put in front of the role's name. A role without a name has no weight.
  WeightIndex find(const std::string& before, const std::string& role) const {
    if (role.empty()) return {};
    const std::string module = before + role;
    return {number(module + ".weight"), number(module + ".bias"), number(factor_a_name(module)),
            number(factor_b_name(module))};
  }
  int64_t number(const std::string& name) const {
    const auto found = index_.find(name);
    return found == index_.end() ? -1 : found->second;
  }

 private:
  std::unordered_map<std::string, int64_t> index_;
};

BlockIndex block_index(const ParameterNames& parameters, const std::string& at,
                       const WeightNames& names) {
  BlockIndex block;
  block.attention_norm = parameters.find(at, names.attention_norm);
  block.ffn_norm = parameters.find(at, names.ffn_norm);
  block.attention_out_norm = parameters.find(at, names.attention_out_norm);
  block.ffn_out_norm = parameters.find(at, names.ffn_out_norm);
  block.qkv = parameters.find(at, names.qkv);
  block.q = parameters.find(at, names.q);
  block.k = parameters.find(at, names.k);
  block.v = parameters.find(at, names.v);
  block.o = parameters.find(at, names.o);
  block.q_norm = parameters.find(at, names.q_norm);
  block.k_norm = parameters.find(at, names.k_norm);
  block.gate = parameters.find(at, names.gate);
  block.up = parameters.find(at, names.up);
  block.down = parameters.find(at, names.down);
  block.router = parameters.find(at, names.router);
  // One tensor for all experts of a layer, without ".weight".
  block.expert_gate_up = parameters.number(at + names.experts + ".gate_up_proj");
  block.expert_down = parameters.number(at + names.experts + ".down_proj");
  return block;
}

}  // namespace

DecoderIndex decoder_index(const ModelConfig& config, const std::vector<Parameter>& parameters) {
  const ParameterNames names_of(parameters);
  const WeightNames& names = config.names;
  DecoderIndex index;
  index.embedding = names_of.find("", names.embedding);
  index.positions = names_of.find("", names.positions);
  index.final_norm = names_of.find("", names.final_norm);
  // One parameter in two roles: its gradients add up in one leaf.
  index.head = config.tied ? index.embedding : names_of.find("", names.head);
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string at = fmt::format(fmt::runtime(names.layer), i);
    index.blocks.push_back(block_index(names_of, at, names));
  }
  return index;
}

const PackedMatrix* PackedWeights::find(int64_t parameter) const {
  // A parameter beyond the table is never packed.
  const auto index = static_cast<size_t>(parameter);
  if (index >= matrices_.size() || !matrices_[index].defined()) return nullptr;
  return &matrices_[index];
}

void PackedWeights::pack(const std::vector<int64_t>& parameters,
                         const std::vector<at::Tensor>& weights, int64_t update_count) {
  int64_t floats = 0;
  for (const at::Tensor& w : weights) floats += packed_floats(w.size(0), w.size(1));
  // Sizes never change, so later updates reuse the storage.
  if (empty()) storage_ = at::empty({floats}, at::kFloat);
  int64_t first = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const int64_t n = packed_floats(weights[i].size(0), weights[i].size(1));
    const auto index = static_cast<size_t>(parameters[i]);
    if (index >= matrices_.size()) matrices_.resize(index + 1);
    matrices_[index] = pack_matrix(weights[i], storage_.narrow(0, first, n));
    first += n;
  }
  update_count_ = update_count;
}

ComputeWeights::ComputeWeights(const std::vector<Parameter>& masters, at::ScalarType compute,
                               RangedWeights* ranged, size_t ranged_count)
    : masters_(masters),
      compute_(compute),
      ranged_(ranged),
      ranged_count_(ranged == nullptr ? 0 : ranged_count),
      copies_(masters.size()) {}

at::Tensor ComputeWeights::get(size_t index, int64_t update_count) {
  const at::Tensor& master = masters_[index].master;
  for (const auto& incoming : incoming_) incoming->await(master);
  at::Tensor weight;
  if (index < ranged_count_) {
    // Fetched from the ranks in the compute type.
    weight = ranged_->get(index);
  } else if (master.scalar_type() == compute_) {
    return master;
  } else {
    WeightCopy& copy = copies_[index];
    if (copy.update_count != update_count || !copy.tensor.defined()) {
      // a new tensor, since a graph may still hold the old copy
      copy.tensor = master.detach().to(compute_);
      copy.update_count = update_count;
    }
    weight = copy.tensor;
  }
  // A gradient goes to the fp32 master, through the copy.
  if (!at::GradMode::is_enabled() || !master.requires_grad()) return weight;
  return WeightCopyFunction::apply(master, weight);
}

void ComputeWeights::forget() {
  copies_.assign(copies_.size(), {});
  if (ranged_ != nullptr) ranged_->forget();
}

void ComputeWeights::add_incoming(std::shared_ptr<IncomingWeights> incoming) {
  incoming_.push_back(std::move(incoming));
}

void ComputeWeights::await_all() const {
  for (const auto& incoming : incoming_) incoming->await_all();
}

void ComputeWeights::keep_fetched(bool keep) {
  if (ranged_ != nullptr) ranged_->keep_all(keep);
}

}  // namespace xrun
