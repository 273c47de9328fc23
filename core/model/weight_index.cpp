// A role of the config plus ".weight", ".bias" or a factor's name, looked up among the parameters.

#include "core/model/weight_index.h"

#include <fmt/format.h>

#include <string>
#include <unordered_map>

#include "core/model/model.h"
#include "core/model/weights/adapter.h"

namespace xrun {

namespace {

// Parameter numbers by name.
class ParameterNames {
 public:
  explicit ParameterNames(const std::vector<Parameter>& parameters) {
    for (const Parameter& parameter : parameters) {
      index_.emplace(parameter.name, static_cast<int64_t>(index_.size()));
    }
  }
  // `before` is the prefix of the role's name; a role without a name has no weight.
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
  block.input_norm = parameters.find(at, names.input_norm);
  block.post_norm = parameters.find(at, names.post_norm);
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
  index.head = config.tied ? index.embedding : names_of.find("", names.head);
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string at = fmt::format(fmt::runtime(names.layer), i);
    index.blocks.push_back(block_index(names_of, at, names));
  }
  return index;
}

}  // namespace xrun
