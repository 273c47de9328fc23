#include "core/model/weight_places.h"

#include <fmt/format.h>

#include <string>
#include <unordered_map>

#include "core/model/weights/adapter.h"
#include "core/model/model.h"

namespace xrun {

namespace {

class PlaceIndex {
 public:
  explicit PlaceIndex(const std::vector<Parameter>& parameters) {
    for (const Parameter& parameter : parameters) {
      places_.emplace(parameter.name, static_cast<int64_t>(places_.size()));
    }
  }
  // `before` stands in front of a role's name; a role without a name has no weight.
  WeightPlace find(const std::string& before, const std::string& role) const {
    if (role.empty()) return {};
    const std::string module = before + role;
    return {place(module + ".weight"), place(module + ".bias"), place(factor_a_name(module)),
            place(factor_b_name(module))};
  }
  int64_t place(const std::string& name) const {
    const auto found = places_.find(name);
    return found == places_.end() ? -1 : found->second;
  }

 private:
  std::unordered_map<std::string, int64_t> places_;
};

BlockPlaces block_places(const PlaceIndex& index, const std::string& at, const WeightNames& names) {
  BlockPlaces block;
  block.input_norm = index.find(at, names.input_norm);
  block.post_norm = index.find(at, names.post_norm);
  block.qkv = index.find(at, names.qkv);
  block.q = index.find(at, names.q);
  block.k = index.find(at, names.k);
  block.v = index.find(at, names.v);
  block.o = index.find(at, names.o);
  block.q_norm = index.find(at, names.q_norm);
  block.k_norm = index.find(at, names.k_norm);
  block.gate = index.find(at, names.gate);
  block.up = index.find(at, names.up);
  block.down = index.find(at, names.down);
  block.router = index.find(at, names.router);
  block.expert_gate_up = index.place(at + names.experts + ".gate_up_proj");
  block.expert_down = index.place(at + names.experts + ".down_proj");
  return block;
}

}  // namespace

DecoderPlaces weight_places(const ModelConfig& config, const std::vector<Parameter>& parameters) {
  const PlaceIndex index(parameters);
  const WeightNames& names = config.names;
  DecoderPlaces places;
  places.embedding = index.find("", names.embedding);
  places.positions = index.find("", names.positions);
  places.final_norm = index.find("", names.final_norm);
  places.head = config.tied ? places.embedding : index.find("", names.head);
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string at = fmt::format(fmt::runtime(names.layer), i);
    places.blocks.push_back(block_places(index, at, names));
  }
  return places;
}

}  // namespace xrun
