#include "core/model/weight_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/model/hf_config.h"

namespace xrun {

namespace {

// The specs of one model, in the order in which they are added.
class SpecList {
 public:
  explicit SpecList(const ModelConfig& config) : config_(config) {}

  void norm(const std::string& name) {
    vector(name, config_.hidden);
    if (config_.norm == Norm::kLayer) specs_.push_back({name + ".bias", {config_.hidden}});
  }
  void vector(const std::string& name, int64_t size) {
    specs_.push_back({name + ".weight", {size}});
  }
  void table(const std::string& name, int64_t rows) {
    specs_.push_back({name + ".weight", {rows, config_.hidden}});
  }
  void linear(const std::string& name, int64_t out, int64_t in, bool bias) {
    using Layout = WeightSpec::Layout;
    specs_.push_back(
        {name + ".weight", {out, in}, config_.transposed ? Layout::kTransposed : Layout::kPlain});
    if (bias) specs_.push_back({name + ".bias", {out}});
  }
  std::vector<WeightSpec> take() { return std::move(specs_); }

 private:
  const ModelConfig& config_;
  std::vector<WeightSpec> specs_;
};

void add_attention(const ModelConfig& c, const std::string& at, SpecList& list) {
  const WeightNames& names = c.names;
  const int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  if (!names.qkv.empty()) {
    list.linear(at + names.qkv, q + 2 * kv, c.hidden, c.qkv_bias);
  } else {
    list.linear(at + names.q, q, c.hidden, c.qkv_bias);
    list.linear(at + names.k, kv, c.hidden, c.qkv_bias);
    list.linear(at + names.v, kv, c.hidden, c.qkv_bias);
  }
  if (c.qk_norm) {
    list.vector(at + names.q_norm, c.head_dim);
    list.vector(at + names.k_norm, c.head_dim);
  }
  list.linear(at + names.o, c.hidden, q, c.out_bias);
}

void add_layer(const ModelConfig& c, int64_t layer, SpecList& list) {
  const WeightNames& names = c.names;
  const std::string at = fmt::format(fmt::runtime(names.layer), layer);
  list.norm(at + names.input_norm);
  add_attention(c, at, list);
  list.norm(at + names.post_norm);
  if (c.gated) list.linear(at + names.gate, c.ffn, c.hidden, c.mlp_bias);
  list.linear(at + names.up, c.ffn, c.hidden, c.mlp_bias);
  list.linear(at + names.down, c.hidden, c.ffn, c.mlp_bias);
}

}  // namespace

std::vector<WeightSpec> weight_specs(const ModelConfig& c) {
  SpecList list(c);
  list.table(c.names.embedding, c.vocab);
  if (c.positions == Positions::kLearned) list.table(c.names.positions, c.max_length);
  for (int64_t i = 0; i < c.layers; ++i) add_layer(c, i, list);
  list.norm(c.names.final_norm);
  if (!c.tied) list.table(c.names.head, c.vocab);
  return list.take();
}

std::string missing_prefix(const SafetensorsFolder& files, const ModelConfig& config) {
  for (const std::string& name : files.names()) {
    if (name.starts_with(config.names.prefix)) return "";
  }
  return config.names.prefix;
}

StoredTensor stored_tensor(const WeightSpec& spec, const std::string& missing) {
  StoredTensor stored{spec.name, spec.shape};
  if (stored.name.starts_with(missing)) stored.name.erase(0, missing.size());
  if (spec.layout == WeightSpec::Layout::kTransposed) {
    std::reverse(stored.shape.begin(), stored.shape.end());
  }
  return stored;
}

at::Tensor read_weight(const WeightSpec& spec, const SafetensorsFolder& files,
                       const std::string& missing) {
  const at::Tensor read = files.read(stored_tensor(spec, missing).name);
  return spec.layout == WeightSpec::Layout::kTransposed ? read.t().contiguous() : read;
}

NamedTensor stored_form(const WeightSpec& spec, const at::Tensor& weight) {
  const bool turned = spec.layout == WeightSpec::Layout::kTransposed;
  return {spec.name, turned ? weight.t().contiguous() : weight};
}

}  // namespace xrun
