#include "core/model/model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/model/decoder.h"
#include "core/model/family.h"
#include "core/model/linear_logprob.h"
#include "core/model/safetensors.h"

namespace xrun {

namespace {

constexpr size_t kNamesInMessage = 12;

// One line of the error about names; empty if there are none.
std::string name_line(const char* what, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  const size_t shown = std::min(names.size(), kNamesInMessage);
  std::string line = fmt::format("\n  {} {}: {}", names.size(), what,
                                 fmt::join(names.begin(), names.begin() + shown, ", "));
  if (shown < names.size()) line += fmt::format(", and {} more", names.size() - shown);
  return line;
}

// Buffers that old checkpoints carry and no model reads.
bool is_buffer(const std::string& name) { return name.ends_with(".rotary_emb.inv_freq"); }

// Compares names and shapes with what the config asks for; one Error lists everything.
class WeightCheck {
 public:
  WeightCheck(const ModelConfig& config, const std::string& where)
      : config_(config), where_(where) {
    for (const WeightSpec& spec : weight_specs(config)) wanted_[spec.name] = spec.shape;
  }

  void saw(const std::string& name, const std::vector<int64_t>& shape) {
    const auto found = wanted_.find(name);
    if (found == wanted_.end()) {
      if (!is_buffer(name) && !is_tied_head(name)) unexpected_.push_back(name);
      return;
    }
    if (found->second != shape) {
      misshapen_.push_back(fmt::format("{} is [{}], wanted [{}]", name, fmt::join(shape, ", "),
                                       fmt::join(found->second, ", ")));
    }
    wanted_.erase(found);
  }

  bool is_tied_head(const std::string& name) const {
    return config_.tied && name == "lm_head.weight";
  }

  void finish() {
    std::vector<std::string> missing;
    for (const auto& [name, shape] : wanted_) missing.push_back(name);
    if (missing.empty() && unexpected_.empty() && misshapen_.empty()) return;
    throw Error(fmt::format("{}: the weights do not fit config.json (model_type {}):{}{}{}", where_,
                            config_.model_type, name_line("missing", missing),
                            name_line("unexpected", unexpected_),
                            name_line("misshapen", misshapen_)));
  }

 private:
  const ModelConfig& config_;
  const std::string& where_;
  std::map<std::string, std::vector<int64_t>> wanted_;
  std::vector<std::string> unexpected_, misshapen_;
};

// The type in which a weight is held: fp32 to be trained, else as it is computed with.
at::ScalarType master_type(at::ScalarType compute, bool trainable) {
  return trainable ? at::kFloat : compute;
}

void check_input(const PackInput& input, int64_t vocab) {
  const int64_t T = input.tokens.numel();
  XRUN_CHECK(
      input.tokens.dim() == 1 && input.position_ids.dim() == 1 && input.position_ids.size(0) == T,
      "a pack needs as many positions as tokens; it has {} and {}", input.position_ids.numel(), T);
  XRUN_CHECK(
      input.tokens.scalar_type() == at::kLong && input.position_ids.scalar_type() == at::kLong,
      "tokens and positions must be int64");
  const std::vector<int32_t>& cu = input.cu_seqlens;
  XRUN_CHECK(
      !cu.empty() && cu.front() == 0 && cu.back() == T && std::is_sorted(cu.begin(), cu.end()),
      "cu_seqlens must rise from 0 to {}, the number of tokens", T);
  const at::Tensor tokens = input.tokens.contiguous();
  const int64_t* id = tokens.const_data_ptr<int64_t>();
  for (int64_t t = 0; t < T; ++t) {
    XRUN_CHECK(id[t] >= 0 && id[t] < vocab,
               "token {} of the pack is {}, outside the model's vocabulary of {}", t, id[t], vocab);
  }
}

}  // namespace

at::Tensor int64_tensor(const std::vector<int64_t>& values) {
  return at::from_blob(const_cast<int64_t*>(values.data()), {static_cast<int64_t>(values.size())},
                       at::kLong)
      .clone();
}

PackInput pack_sequences(const std::vector<std::vector<int32_t>>& sequences) {
  std::vector<int64_t> tokens, positions;
  PackInput input;
  input.cu_seqlens.push_back(0);
  for (const std::vector<int32_t>& sequence : sequences) {
    for (size_t t = 0; t < sequence.size(); ++t) {
      tokens.push_back(sequence[t]);
      positions.push_back(static_cast<int64_t>(t));
    }
    input.cu_seqlens.push_back(static_cast<int32_t>(tokens.size()));
  }
  input.tokens = int64_tensor(tokens);
  input.position_ids = int64_tensor(positions);
  return input;
}

Model::Model(ModelConfig config, std::vector<Parameter> parameters, at::ScalarType compute,
             bool trainable)
    : config_(std::move(config)),
      compute_(compute),
      trainable_(trainable),
      parameters_(std::move(parameters)),
      decoder_(std::make_unique<Decoder>(config_, parameters_, compute)) {
  for (Parameter& parameter : parameters_) parameter.master.set_requires_grad(trainable);
}

Model::~Model() = default;

std::shared_ptr<Model> Model::load(const std::filesystem::path& dir, at::ScalarType compute,
                                   bool trainable) {
  const ModelConfig config = read_model_config(dir);
  const SafetensorsFolder files(dir);
  const std::string where = dir.string();
  WeightCheck check(config, where);
  for (const std::string& name : files.names()) check.saw(name, files.entry(name).shape);
  check.finish();
  std::vector<Parameter> parameters;
  for (const WeightSpec& spec : weight_specs(config)) {
    const at::Tensor read = files.read(spec.name);
    XRUN_CHECK(read.is_floating_point(), "{}: '{}' is {}, wanted a floating-point type", where,
               spec.name, c10::toString(read.scalar_type()));
    parameters.push_back({spec.name, read.to(master_type(compute, trainable))});
  }
  if (config.tied && files.has("lm_head.weight")) {
    const at::Tensor embedding = files.read("model.embed_tokens.weight");
    XRUN_CHECK(at::equal(files.read("lm_head.weight"), embedding),
               "{}: config.json ties the head to the embedding, but the file has an lm_head.weight "
               "that differs from it; set tie_word_embeddings to false to use it",
               where);
  }
  return make(config, std::move(parameters), compute, trainable);
}

std::shared_ptr<Model> Model::make(ModelConfig config, std::vector<Parameter> parameters,
                                   at::ScalarType compute, bool trainable) {
  XRUN_CHECK(
      compute == at::kFloat || compute == at::kBFloat16 || (compute == at::kHalf && !trainable),
      "a model that is {} computes in fp32 or bf16{}, not in {}",
      trainable ? "trained" : "only read", trainable ? "" : " or fp16", dtype_name(compute));
  return std::shared_ptr<Model>(
      new Model(std::move(config), std::move(parameters), compute, trainable));
}

std::shared_ptr<Model> Model::clone(bool trainable) const {
  // An own copy even where the type is right already: nobody else may hold a master's storage.
  std::vector<Parameter> parameters;
  for (const Parameter& parameter : parameters_) {
    parameters.push_back(
        {parameter.name,
         parameter.master.detach()
             .to(master_type(compute_, trainable), /*non_blocking=*/false, /*copy=*/true)
             .contiguous()});
  }
  return make(config_, std::move(parameters), compute_, trainable);
}

at::Tensor Model::forward(const PackInput& input) {
  check_input(input, config_.vocab);
  return decoder_->forward(input, update_count, nullptr);
}

at::Tensor Model::forward_cached(const PackInput& input, KvCache& cache) {
  const at::NoGradGuard no_grad;
  check_input(input, config_.vocab);
  return decoder_->forward(input, update_count, &cache);
}

at::Tensor Model::head_weight() { return decoder_->head_weight(update_count); }

at::Tensor Model::token_logprob(const PackInput& input, const at::Tensor& row_hidden,
                                const at::Tensor& row_target, int64_t head_mb) {
  return linear_logprob(forward(input), head_weight(), row_hidden, row_target, head_mb);
}

std::string Model::digest() const {
  Hasher hasher;
  for (const Parameter& parameter : parameters_) {
    const at::Tensor data = parameter.master.detach().cpu().contiguous();
    hasher.field("name", parameter.name);
    hasher.field("type", std::string_view(c10::toString(data.scalar_type())));
    for (const int64_t size : data.sizes()) hasher.field("size", size);
    hasher.bytes({static_cast<const char*>(data.const_data_ptr()), data.nbytes()});
  }
  return hasher.hex();
}

}  // namespace xrun
