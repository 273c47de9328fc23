// A trained master is fp32; a frozen one is the only copy, in the storage type. model_load.cpp
// reads masters from a folder.

#include "core/model/model.h"

#include <ATen/core/grad_mode.h>

#include <map>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/model/decoder.h"
#include "core/model/flops.h"
#include "core/model/model_load.h"
#include "core/model/ops/device.h"
#include "core/model/ops/device_memory.h"
#include "core/model/ops/linear_head.h"
#include "core/model/ops/matrix_product.h"
#include "core/model/ops/scratch.h"
#include "core/model/pack_input.h"
#include "core/model/weights/adapter.h"
#include "core/model/weights/export.h"
#include "core/model/weights/trained_weights.h"
#include "core/model/weights/weight_layout.h"

namespace xrun {

namespace {

// Share of the base weights' elements that have a gradient. A backward needs this part of the
// products for weights.
double share_of_trained(const std::vector<Parameter>& base, const LoadOptions& options) {
  if (!trains_base(options)) return 0;
  double all = 0, trained = 0;
  for (const Parameter& parameter : base) {
    const auto elements = static_cast<double>(parameter.master.numel());
    all += elements;
    if (is_trained(options.train, parameter.name)) trained += elements;
  }
  return all > 0 ? trained / all : 0;
}

// Appends the factors of the adapter, which must fit the model.
void add_factors(const LoadOptions& options, std::vector<Parameter>& parameters) {
  if (!options.adapter) return;
  for (const AdapterFactors& factors : options.adapter->factors) {
    parameters.push_back({factor_a_name(factors.module), factors.a.detach()});
    parameters.push_back({factor_b_name(factors.module), factors.b.detach()});
  }
}

}  // namespace

Model::Model(ModelConfig config, std::vector<Parameter> parameters, const LoadOptions& options,
             std::shared_ptr<RangedWeights> ranged)
    : config_(std::move(config)),
      options_(options),
      parameters_(std::move(parameters)),
      ranged_(std::move(ranged)),
      packed_(std::make_unique<PackedWeights>()) {
  // Base weights come first, then the factors of an adapter.
  const size_t weights = parameters_.size();
  trained_share_ = share_of_trained(parameters_, options_);
  add_factors(options_, parameters_);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& parameter = parameters_[i];
    const bool base = i < weights;
    // Frozen masters may be shared with another model, so their flag is left alone.
    if (base && !trains_base(options_)) continue;
    const bool trained =
        options_.trainable && (!base || is_trained(options_.train, parameter.name));
    parameter.master.set_requires_grad(trained);
    if (trained) trained_.push_back(parameter);
  }
  decoder_ = std::make_unique<Decoder>(config_, parameters_, options_, ranged_.get(), weights);
}

Model::~Model() = default;

void Model::add_incoming(std::shared_ptr<IncomingWeights> incoming) {
  decoder_->weights().add_incoming(std::move(incoming));
}

void Model::await_weights() const { decoder_->weights().await_all(); }

at::Tensor Model::master(size_t parameter) const {
  await_weights();
  const bool in_ranges = ranged_ && static_cast<int64_t>(parameter) < base_count();
  return in_ranges ? ranged_->master(parameter) : parameters_[parameter].master.detach();
}

int64_t Model::held_bytes() const {
  // A master in ranges is represented by one zero.
  const size_t first = ranged_ ? static_cast<size_t>(base_count()) : 0;
  int64_t bytes = ranged_ ? ranged_->held_bytes() : 0;
  for (size_t i = first; i < parameters_.size(); ++i) {
    bytes += static_cast<int64_t>(parameters_[i].master.nbytes());
  }
  return bytes;
}

std::shared_ptr<Model> Model::with_adapter(const Model& model,
                                           std::shared_ptr<const Adapter> adapter) {
  XRUN_CHECK(!trains_base(model.options_),
             "an adapter cannot share weights that are themselves trained");
  LoadOptions options = model.options_;
  options.trainable = false;
  options.adapter = std::move(adapter);
  // The masters are shared, not copied.
  std::vector<Parameter> parameters(model.parameters_.begin(),
                                    model.parameters_.begin() + model.base_count());
  std::shared_ptr<Model> made = make(model.config_, std::move(parameters), options, model.ranged_);
  if (!options.adapter) made->loaded_ = {model.loaded_.rounded, model.loaded_.rounded};
  return made;
}

int64_t Model::base_count() const {
  const size_t factors = options_.adapter ? 2 * options_.adapter->factors.size() : 0;
  return static_cast<int64_t>(parameters_.size() - factors);
}

at::Tensor Model::merged(size_t parameter) const {
  if (options_.adapter) {
    for (const AdapterFactors& factors : options_.adapter->factors) {
      if (parameters_[parameter].name != factors.module + ".weight") continue;
      return merged_weight(master(parameter), factors, options_.adapter->scale());
    }
  }
  return master(parameter);
}

std::vector<NamedTensor> Model::stored(const WeightSpec& spec, size_t parameter,
                                       at::ScalarType dtype) const {
  const at::Tensor rounded = merged(parameter).to(dtype);
  // fp16 ends at 65504; the other types hold every fp32 value's magnitude, as rounding to bf16
  // overflows only beside fp32's own largest number.
  XRUN_CHECK(dtype != at::kHalf || rounded.isfinite().all().item<bool>(),
             "{}: a trained value overflows float16; set export = {{ dtype = \"fp32\" }}",
             spec.name);
  return stored_form(spec, rounded);
}

ExportedModel Model::exported(std::optional<at::ScalarType> dtype) const {
  ExportedModel result{config_, dtype.value_or(config_.dtype), {}};
  const std::vector<WeightSpec> specs = weight_specs(config_);
  // The last two weights read. Experts stored one by one alternate between the two weights of their
  // layer, so one would not be enough.
  using Recent = std::map<size_t, std::vector<NamedTensor>>;
  const auto recent = std::make_shared<Recent>();
  for (size_t i = 0; i < specs.size(); ++i) {
    const std::vector<StoredTensor> tensors = stored_tensors(specs[i], {});
    for (size_t k = 0; k < tensors.size(); ++k) {
      const auto read = [this, recent, spec = specs[i], i, k, type = result.dtype] {
        if (!recent->contains(i)) {
          if (recent->size() == 2) recent->clear();
          (*recent)[i] = stored(spec, i, type);
        }
        return recent->at(i)[k].tensor;
      };
      result.tensors.push_back({tensors[k].name, result.dtype, tensors[k].shape, read});
    }
  }
  return result;
}

std::shared_ptr<Model> Model::copied(
    LoadOptions options, const std::function<at::Tensor(size_t parameter)>& read) const {
  options.adapter = nullptr;
  options.make_ranged = {};
  std::vector<Parameter> parameters;
  // Without the adapter's factors.
  for (size_t i = 0; i < static_cast<size_t>(base_count()); ++i) {
    parameters.push_back({parameters_[i].name, read(i).contiguous()});
  }
  return make(config_, std::move(parameters), options);
}

std::shared_ptr<Model> Model::clone(bool trainable) const {
  LoadOptions options = options_;
  options.trainable = trainable;
  // Without the adapter, so that master_type() gives the types of the clone's masters.
  options.adapter = nullptr;
  return copied(options, [&](size_t i) {
    // Copied even where the type is right already: nothing else may share a master's storage.
    return master(i).to(master_type(options, parameters_[i].name), /*non_blocking=*/false,
                        /*copy=*/true);
  });
}

std::shared_ptr<Model> Model::host_copy(GemmType gemm) const {
  LoadOptions options = options_;
  options.gemm = gemm;
  options.trainable = false;
  options.device = c10::kCPU;
  return copied(options, [&](size_t i) {
    return merged(i).to(options.dtype).to(c10::kCPU, /*non_blocking=*/false, /*copy=*/true);
  });
}

at::Tensor Model::forward(const PackInput& input, const ForwardOptions& options) {
  check_pack_input(input, config_);
  const AdapterOptions* const adapter = options_.adapter ? &options_.adapter->options : nullptr;
  PackFlops flops = pack_flops(config_, input.cu_seqlens, input.parent, adapter);
  if (const int64_t held = held_tokens(input, config_, options); held > 0) {
    // Held tokens were counted when they were computed.
    flops -= pack_flops(config_, {0, static_cast<int32_t>(held)}, {}, adapter);
  }
  const bool backward = options_.trainable && at::GradMode::is_enabled();
  // Before the activations need that memory.
  if (backward) release_decoding();
  count_flops(flops.forward() + (backward ? flops.backward(trained_share_) : 0));
  return decoder_->forward(input, update_count, options, nullptr);
}

at::Tensor Model::forward_cached(const PackInput& input, KvCache& cache,
                                 std::vector<at::Tensor>* routes) {
  const at::NoGradGuard no_grad;
  check_pack_input(input, config_);
  // A fetch for each token would cost more than the memory of the weights.
  decoder_->keep_fetched(true);
  return decoder_->forward(input, update_count, {}, &cache, packed(), routes);
}

at::Tensor Model::decoding_logits(const at::Tensor& hidden) {
  const at::NoGradGuard no_grad;
  if (!device().is_cpu()) return HostCopy(head_logits(hidden, head_weight())).wait();
  const at::Tensor rows = hidden.to(at::kFloat);
  const at::Tensor logits =
      scratch_floats(rows.size(0) * config_.vocab).view({rows.size(0), config_.vocab});
  if (const PackedWeights* const ready = packed()) {
    multiply_rows_into(logits, rows, *ready->find(decoder_->head_parameter()));
    return logits;
  }
  // Not packed: the head is converted once per update.
  if (!decoding_head_.defined() || decoding_head_count_ != update_count) {
    decoding_head_ = head_weight().to(at::kFloat).contiguous();
    decoding_head_count_ = update_count;
  }
  multiply_rows_into(logits, rows, decoding_head_);
  return logits;
}

bool Model::is_packed() const { return packed() != nullptr; }

const PackedWeights* Model::packed() const {
  return !packed_->empty() && packed_->update_count() == update_count ? packed_.get() : nullptr;
}

void Model::release_decoding() {
  *packed_ = PackedWeights();
  decoding_head_ = at::Tensor();
  decoder_->keep_fetched(false);
}

void Model::weights_replaced(int64_t count) {
  update_count = count;
  ++times_replaced_;
  release_decoding();
  decoder_->forget_copies();
}

// A product with few rows spends much of its time on transposing the weight. Packed weights are
// transposed already.
bool Model::pack() {
  if (is_packed()) return true;
  // The weights must be whole and on the CPU, whose kernels read packed ones.
  if (ranged_ || !device().is_cpu()) return false;
  const at::NoGradGuard no_grad;
  const std::vector<int64_t> parameters = decoder_->packable();
  if (packed_->empty()) {
    int64_t bytes = 0;
    for (const int64_t parameter : parameters) {
      const at::Tensor& master = parameters_[static_cast<size_t>(parameter)].master;
      bytes += 4 * packed_floats(master.size(0), master.size(1));
    }
    // Half, since keys and values need memory too; 0: unknown.
    const int64_t available = available_bytes();
    if (available > 0 && bytes > available / 2) return false;
  }
  std::vector<at::Tensor> weights;
  for (const int64_t parameter : parameters) {
    weights.push_back(decoder_->weight(parameter, update_count));
  }
  packed_->pack(parameters, weights, update_count);
  decoding_head_ = at::Tensor();  // replaced by the packed head
  return true;
}

at::Tensor Model::head_weight() { return decoder_->head_weight(update_count); }

HeadResult Model::head(const at::Tensor& hidden, const at::Tensor& index, const at::Tensor& target,
                       const HeadOptions& options) {
  const at::Tensor weight = head_weight();
  double products = 1;  // the logits, and for the backward dhidden and dweight
  if (at::GradMode::is_enabled()) products += hidden.requires_grad() + weight.requires_grad();
  count_flops(products * head_flops(config_, index.size(0)));
  return linear_head(hidden, weight, index, target, options);
}

at::Tensor Model::token_logprob(const PackInput& input, const at::Tensor& row_hidden,
                                const at::Tensor& row_target, int64_t head_mb,
                                const ForwardOptions& options) {
  return head(forward(input, options), row_hidden, row_target, {.head_mb = head_mb}).logprob;
}

std::string Model::digest(std::optional<at::ScalarType> type) const {
  const bool as_loaded = update_count == 0 && times_replaced_ == 0;
  if (as_loaded && !type && !loaded_.masters.empty()) return loaded_.masters;
  if (as_loaded && type == options_.dtype && !loaded_.rounded.empty()) return loaded_.rounded;
  std::vector<std::string> digests;
  // With a type: the base weights alone, so that a frozen copy has the same digest.
  const size_t count = type ? static_cast<size_t>(base_count()) : parameters_.size();
  for (size_t i = 0; i < count; ++i) {
    // One weight at a time, so that memory never holds a second model.
    const at::Tensor whole = master(i);
    digests.push_back(weight_digest(parameters_[i].name, type ? whole.to(*type) : whole));
  }
  return model_digest(digests);
}

}  // namespace xrun
