// Names and shapes follow from the config; transposition and experts from the family.

#include "core/model/weights/weight_layout.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/model/weights/hf_config.h"

namespace xrun {

namespace {

// The specs of one model, in the order of the calls.
class SpecList {
 public:
  explicit SpecList(const ModelConfig& config) : config_(config) {}

  // `at` is the prefix of the role's name; a role without a name has no weight.
  void norm(const std::string& at, const std::string& role) {
    if (role.empty()) return;
    vector(at + role, config_.hidden);
    if (config_.norm == Norm::kLayer) specs_.push_back({at + role + ".bias", {config_.hidden}});
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
  void experts(const std::string& name, int64_t out, int64_t in,
               const std::vector<std::string>& parts) {
    specs_.push_back({name, {config_.moe.experts, out, in}, WeightSpec::Layout::kExperts, parts});
  }
  std::vector<WeightSpec> take() { return std::move(specs_); }

 private:
  const ModelConfig& config_;
  std::vector<WeightSpec> specs_;
};

void add_attention(const ModelConfig& c, const std::string& at, SpecList& list) {
  const WeightNames& names = c.names;
  // Rows of q, k and v, in this order where they are one map.
  const int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  if (!names.qkv.empty()) {
    list.linear(at + names.qkv, q + 2 * kv, c.hidden, c.qkv_bias);
  } else {
    list.linear(at + names.q, q, c.hidden, c.qkv_bias);
    list.linear(at + names.k, kv, c.hidden, c.qkv_bias);
    list.linear(at + names.v, kv, c.hidden, c.qkv_bias);
  }
  if (c.qk_norm != QkNorm::kNone) {
    // Per head, one weight serves all heads.
    const bool per_head = c.qk_norm == QkNorm::kPerHead;
    list.vector(at + names.q_norm, per_head ? c.head_dim : q);
    list.vector(at + names.k_norm, per_head ? c.head_dim : kv);
  }
  list.linear(at + names.o, c.hidden, q, c.out_bias);
}

void add_experts(const ModelConfig& c, const std::string& at, SpecList& list) {
  const std::string experts = at + c.names.experts;
  list.linear(at + c.names.router, c.moe.experts, c.hidden, /*bias=*/false);
  // Stacked over the experts: [E, 2 ffn, hidden], the rows of gate first, and [E, hidden, ffn].
  list.experts(experts + ".gate_up_proj", 2 * c.moe.ffn, c.hidden, {"gate_proj", "up_proj"});
  list.experts(experts + ".down_proj", c.hidden, c.moe.ffn, {"down_proj"});
}

void add_feed_forward(const ModelConfig& c, const std::string& at, SpecList& list) {
  const WeightNames& names = c.names;
  if (c.gated) list.linear(at + names.gate, c.ffn, c.hidden, c.mlp_bias);
  list.linear(at + names.up, c.ffn, c.hidden, c.mlp_bias);
  list.linear(at + names.down, c.hidden, c.ffn, c.mlp_bias);
}

// The order fixes the numbers by which new weights are drawn.
void add_layer(const ModelConfig& c, int64_t layer, SpecList& list) {
  const WeightNames& names = c.names;
  const std::string at = fmt::format(fmt::runtime(names.layer), layer);
  list.norm(at, names.attention_norm);
  add_attention(c, at, list);
  list.norm(at, names.attention_out_norm);
  list.norm(at, names.ffn_norm);
  c.is_moe(layer) ? add_experts(c, at, list) : add_feed_forward(c, at, list);
  list.norm(at, names.ffn_out_norm);
}

// Per-expert tensors are named beside the stacked one: "...experts.3.up_proj.weight".
std::string expert_name(const WeightSpec& spec, int64_t expert, const std::string& part) {
  const std::string module = spec.name.substr(0, spec.name.rfind('.'));
  return fmt::format("{}.{}.{}.weight", module, expert, part);
}

}  // namespace

// The only list of a model's weights: loading, export and new models follow it.
std::vector<WeightSpec> weight_specs(const ModelConfig& c) {
  SpecList list(c);
  list.table(c.names.embedding, c.vocab);
  if (c.positions == Positions::kLearned) list.table(c.names.positions, c.max_length);
  for (int64_t i = 0; i < c.layers; ++i) add_layer(c, i, list);
  list.norm("", c.names.final_norm);
  if (!c.tied) list.table(c.names.head, c.labels > 0 ? c.labels : c.vocab);
  return list.take();
}

double WeightSpec::elements() const {
  double product = 1;
  for (const int64_t size : shape) product *= static_cast<double>(size);
  return product;
}

double weight_elements(const ModelConfig& config) {
  double sum = 0;
  for (const WeightSpec& spec : weight_specs(config)) sum += spec.elements();
  return sum;
}

// Decided by the names in the files, since both forms are in use.
FileForm file_form(const SafetensorsFolder& files, const ModelConfig& config,
                   const std::string& where) {
  FileForm form{config.names.prefix};
  // Old GPT-2 files leave the prefix out.
  for (const std::string& name : files.names()) {
    if (name.starts_with(config.names.prefix)) form.missing_prefix = "";
  }
  std::string stacked, single;
  for (const WeightSpec& spec : weight_specs(config)) {
    if (spec.layout != WeightSpec::Layout::kExperts) continue;
    // The first part of expert 0 tells which form the file has.
    const std::string first = expert_name(spec, 0, spec.parts.front());
    if (files.has(spec.name)) stacked = spec.name;
    if (files.has(first)) single = first;
  }
  XRUN_CHECK(stacked.empty() || single.empty(),
             "{}: experts are stored in both forms, {} and {}; keep one of them", where, stacked,
             single);
  form.fused = !stacked.empty();
  return form;
}

std::vector<StoredTensor> stored_tensors(const WeightSpec& spec, const FileForm& form) {
  using Layout = WeightSpec::Layout;
  if (spec.layout == Layout::kExperts && !form.fused) {
    std::vector<StoredTensor> all;
    const auto parts = static_cast<int64_t>(spec.parts.size());
    for (int64_t e = 0; e < spec.shape[0]; ++e) {
      for (const std::string& part : spec.parts) {
        // Rows of a stacked expert are divided equally between its parts.
        all.push_back({expert_name(spec, e, part), {spec.shape[1] / parts, spec.shape[2]}});
      }
    }
    return all;
  }
  StoredTensor stored{spec.name, spec.shape};
  if (stored.name.starts_with(form.missing_prefix)) {
    stored.name.erase(0, form.missing_prefix.size());
  }
  // GPT-2's files hold [in, out].
  if (spec.layout == Layout::kTransposed) std::reverse(stored.shape.begin(), stored.shape.end());
  return {stored};
}

at::Tensor read_weight(const WeightSpec& spec, const SafetensorsFolder& files,
                       const FileForm& form) {
  const std::vector<StoredTensor> stored = stored_tensors(spec, form);
  if (spec.layout == WeightSpec::Layout::kExperts && !form.fused) {
    // Never a list of all experts, which would hold them twice.
    at::Tensor rows;  // [E out, in], filled expert by expert
    int64_t filled = 0;
    for (const StoredTensor& tensor : stored) {
      const at::Tensor read = files.read(tensor.name);
      if (!rows.defined()) {
        rows = at::empty({spec.shape[0] * spec.shape[1], spec.shape[2]}, read.options());
      }
      XRUN_CHECK(read.scalar_type() == rows.scalar_type(), "{} is {}, the experts before it are {}",
                 tensor.name, c10::toString(read.scalar_type()), c10::toString(rows.scalar_type()));
      rows.narrow(0, filled, read.size(0)).copy_(read);
      filled += read.size(0);
    }
    return rows.view(spec.shape);
  }
  const at::Tensor read = files.read(stored.front().name);
  // The transposed copy is made once, at loading.
  return spec.layout == WeightSpec::Layout::kTransposed ? read.t().contiguous() : read;
}

at::Tensor read_weight_range(const WeightSpec& spec, const SafetensorsFolder& files,
                             const FileForm& form, int64_t begin, int64_t count) {
  if (spec.layout == WeightSpec::Layout::kTransposed) {
    return read_weight(spec, files, form).reshape({-1}).narrow(0, begin, count).clone();
  }
  // The tensors of a weight lie end to end in memory.
  std::vector<at::Tensor> pieces;
  int64_t first = 0;
  for (const StoredTensor& stored : stored_tensors(spec, form)) {
    const int64_t last = first + c10::multiply_integers(stored.shape);
    const int64_t from = std::max(first, begin), to = std::min(last, begin + count);
    if (from < to) pieces.push_back(files.read_range(stored.name, from - first, to - from));
    first = last;
  }
  return pieces.size() == 1 ? pieces.front() : at::cat(pieces);
}

// The inverse of read_weight(), with separate experts.
std::vector<NamedTensor> stored_form(const WeightSpec& spec, const at::Tensor& weight) {
  using Layout = WeightSpec::Layout;
  if (spec.layout == Layout::kPlain) return {{spec.name, weight}};
  if (spec.layout == Layout::kTransposed) return {{spec.name, weight.t().contiguous()}};
  const at::Tensor rows = weight.contiguous().view({-1, spec.shape[2]});
  std::vector<NamedTensor> all;
  int64_t taken = 0;
  for (const StoredTensor& tensor : stored_tensors(spec, {})) {
    // Views: the parts of an expert are adjacent rows.
    all.push_back({tensor.name, rows.narrow(0, taken, tensor.shape[0])});
    taken += tensor.shape[0];
  }
  return all;
}

}  // namespace xrun
