// rate = sum of FLOPs / sum of seconds, over one block of each kind times their number. A block is
// timed alone, since a model of one layer would spend much of its time on the embedding's gradient,
// [V, D].

#include "core/model/cost/measured_rates.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <functional>

#include "core/base/error.h"
#include "core/base/process_usage.h"
#include "core/model/block.h"
#include "core/model/decoder_weights.h"
#include "core/model/flops.h"
#include "core/model/model_load.h"
#include "core/model/ops/device.h"
#include "core/model/ops/linear_head.h"
#include "core/model/weights/adapter.h"
#include "core/model/weights/layer_kinds.h"
#include "core/model/weights/weight_layout.h"
#include "kernels/cpu/adamw.h"

namespace xrun {

namespace {

// FLOPs, forward and backward, of the parts that are timed on a CPU. The head gets more, since its
// gradient, [V, D], costs the same for few rows as for many.
constexpr double kBlockFlops = 2e10, kHeadFlops = 4e10;
constexpr int64_t kLeastTokens = 128;  // fewer would not show the rate of longer packs
constexpr int64_t kMostVocab = 1 << 16;
constexpr double kPartSeconds = 0.2;  // a part is repeated for this long
constexpr size_t kLeastRuns = 3, kMostRuns = 20;
constexpr int64_t kUpdated = 1 << 24;

struct PassSeconds {
  double forward = 0, backward = 0;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Waits for the device.
void finish(const at::Tensor& last) { HostCopy(last.flatten().slice(0, 0, 1)).wait(); }

// Waves, since zeros would multiply faster, with the magnitude of initial weights.
at::Tensor waves(at::IntArrayRef shape, c10::ScalarType dtype, c10::Device device) {
  const int64_t n = c10::multiply_integers(shape);
  return at::arange(n, at::TensorOptions(device).dtype(at::kFloat))
      .mul_(0.37)
      .sin_()
      .mul_(0.02)
      .view(shape)
      .to(dtype);
}

// Returns the medians of several runs, after one that is not counted.
//   leaves  the tensors whose gradients a backward computes
PassSeconds time_pass(const std::function<at::Tensor()>& forward,
                      const std::vector<at::Tensor>& leaves) {
  std::vector<double> forwards, backwards;
  const auto begin = SteadyClock::now();
  while (forwards.size() < kLeastRuns + 1 ||
         (seconds_since(begin) < kPartSeconds && forwards.size() < kMostRuns)) {
    for (const at::Tensor& leaf : leaves) leaf.mutable_grad().reset();
    const auto from = SteadyClock::now();
    const at::Tensor out = forward();
    finish(out);
    forwards.push_back(seconds_since(from));
    const at::Tensor gradient = at::full({}, 0.01, out.options()).expand_as(out).contiguous();
    const auto back = SteadyClock::now();
    if (out.requires_grad()) out.backward(gradient);
    finish(leaves.front().grad().defined() ? leaves.front().grad() : out);
    backwards.push_back(seconds_since(back));
  }
  forwards.erase(forwards.begin());
  backwards.erase(backwards.begin());
  return {median(std::move(forwards)), median(std::move(backwards))};
}

// Returns the first tokens of a pack; its last node may be cut.
PackInput first_tokens(const PackInput& pack, int64_t tokens) {
  if (tokens >= pack.tokens.size(0)) return pack;
  PackInput out{pack.tokens.slice(0, 0, tokens), pack.position_ids.slice(0, 0, tokens), {}};
  for (const int32_t begin : pack.cu_seqlens) {
    if (begin < tokens) out.cu_seqlens.push_back(begin);
  }
  const size_t nodes = out.cu_seqlens.size();
  out.cu_seqlens.push_back(static_cast<int32_t>(tokens));
  const auto first = [&](const std::vector<int32_t>& all) {
    return std::vector<int32_t>(all.begin(), all.begin() + std::min(all.size(), nodes));
  };
  out.parent = first(pack.parent);
  out.rope_length = first(pack.rope_length);
  return out;
}

// Returns the number of items that are timed: all on a GPU, else as many as `most` FLOPs allow.
int64_t timed_items(int64_t items, double flops, double most, c10::Device device) {
  if (!device.is_cpu()) return items;
  return std::min(items, std::max(static_cast<int64_t>(most / flops), kLeastTokens));
}

// A model with made-up weights, whose parts are timed.
class TimedModel {
 public:
  TimedModel(ModelConfig config, const LoadOptions& options)
      : config_(std::move(config)), options_(options) {
    for (const WeightSpec& spec : weight_specs(config_)) {
      const bool one = spec.shape.size() == 1;  // a norm or a bias
      at::Tensor weight = waves(spec.shape, master_type(options_), options_.device);
      parameters_.push_back({spec.name, one ? weight.add_(1) : weight});
      if (trains_base(options_)) leaf(parameters_.back().master);
    }
    const size_t base = parameters_.size();
    if (options_.adapter) add_factors();
    weights_.emplace(parameters_, options_.dtype, nullptr, base);
  }

  PassSeconds time_block(const PackInput& pack) {
    const DecoderIndex index = decoder_index(config_, parameters_);
    ForwardState state{.config = config_,
                       .weights = *weights_,
                       .layout = {.cu_seqlens = {pack.cu_seqlens.begin(), pack.cu_seqlens.end()},
                                  .parent = {pack.parent.begin(), pack.parent.end()}},
                       .gemm = options_.gemm,
                       .adapter = options_.adapter.get()};
    if (config_.positions == Positions::kRotary) {
      state.angles = rope_angles(config_.rope, config_.head_dim,
                                 {pack.position_ids, state.layout.cu_seqlens, pack.rope_length},
                                 options_.dtype, options_.device);
    }
    const at::Tensor x = hidden(pack.tokens.size(0));
    return time_pass([&] { return block(state, index.blocks.front(), 0, x); }, leaves_and(x));
  }

  PassSeconds time_head(const at::Tensor& target) {
    const DecoderIndex index = decoder_index(config_, parameters_);
    const at::Tensor x = hidden(target.size(0));
    const at::Tensor rows = at::arange(target.size(0), target.options());
    return time_pass(
        [&] {
          const auto weight = weights_->get(static_cast<size_t>(index.head.weight), 0);
          return linear_head(x, weight, rows, target).logprob;
        },
        leaves_and(x));
  }

  PassSeconds time_embedding(const at::Tensor& tokens) {
    const auto embedding =
        static_cast<size_t>(decoder_index(config_, parameters_).embedding.weight);
    const at::Tensor ids = on_device(tokens, options_.device);
    return time_pass([&] { return at::embedding(weights_->get(embedding, 0), ids); },
                     leaves_and(parameters_[embedding].master));
  }

 private:
  void leaf(at::Tensor& master) { master.set_requires_grad(true); }

  void add_factors() {
    for (const AdapterFactors& factors : options_.adapter->factors) {
      parameters_.push_back({factor_a_name(factors.module), factors.a});
      parameters_.push_back({factor_b_name(factors.module), factors.b});
      leaf(parameters_[parameters_.size() - 2].master);
      leaf(parameters_.back().master);
    }
  }

  at::Tensor hidden(int64_t tokens) const {
    return waves({tokens, config_.hidden}, options_.dtype, options_.device).set_requires_grad(true);
  }

  std::vector<at::Tensor> leaves_and(const at::Tensor& x) const {
    std::vector<at::Tensor> out{x};
    for (const Parameter& parameter : parameters_) out.push_back(parameter.master);
    return out;
  }

  ModelConfig config_;
  const LoadOptions& options_;
  std::vector<Parameter> parameters_;
  std::optional<ComputeWeights> weights_;
};

// Returns `options` with an adapter for `config`, a model of one layer.
LoadOptions options_for(const ModelConfig& config, LoadOptions options) {
  options.train.clear();
  if (!options.adapter) return options;
  auto adapter = make_adapter(options.adapter->options, config, /*seed=*/0);
  for (AdapterFactors& factors : adapter->factors) {
    factors.a = factors.a.to(options.device);
    factors.b = factors.b.to(options.device);
  }
  options.adapter = std::move(adapter);
  return options;
}

PassRates block_rates(const ModelConfig& config, const LoadOptions& options,
                      const PackInput& whole) {
  const AdapterOptions* const adapter = options.adapter ? &options.adapter->options : nullptr;
  double forward = 0, backward = 0;  // FLOPs
  PassSeconds seconds;
  const LayerKinds kinds(config);
  for (const LayerKind& kind : kinds.all()) {
    const auto flops_of = [&](const PackInput& pack) {
      return pack_flops(kind.model, pack.cu_seqlens, pack.parent, adapter);
    };
    const int64_t tokens = whole.tokens.size(0);
    const double each = 3 * flops_of(whole).forward() / static_cast<double>(tokens);
    const PackInput pack =
        first_tokens(whole, timed_items(tokens, each, kBlockFlops, options.device));
    const LoadOptions of_kind = options_for(kind.model, options);
    const PassSeconds one = TimedModel(kind.model, of_kind).time_block(pack);
    const PackFlops flops = flops_of(pack);
    forward += kind.count * flops.forward();
    backward += kind.count * flops.backward(adapter == nullptr ? 1 : 0);
    seconds.forward += kind.count * one.forward;
    seconds.backward += kind.count * one.backward;
  }
  return {forward / seconds.forward, backward / seconds.backward};
}

// Returns bytes/s; step_forecast.h says how many bytes the update of a weight counts.
double update_rate(c10::Device device) {
  const at::NoGradGuard no_grad;
  constexpr int64_t kRun = 1 << 18;  // the least elements of a thread
  std::vector<at::Tensor> all;       // weight, gradient and both moments
  for (int i = 0; i < 4; ++i) all.push_back(at::full({kUpdated}, 0.5, at::kFloat).to(device));
  const auto update = [&](int64_t begin, int64_t end) {
    const auto at = [&](int i) { return all[static_cast<size_t>(i)].mutable_data_ptr<float>(); };
    kernels::sum_of_squares(at(1) + begin, end - begin);
    kernels::adamw_update(at(0) + begin, at(1) + begin, at(2) + begin, at(3) + begin, end - begin,
                          {1, 0.1F, 0.999F, 0.001F, 1e-5F, 1, 1e-8F, 1});
  };
  std::vector<double> seconds;
  for (int i = 0; i < 5; ++i) {
    const auto begin = SteadyClock::now();
    if (device.is_cpu()) {
      at::parallel_for(0, kUpdated, kRun, update);
    } else {
      // The update's operators use memory as fast as an addition does: 12 bytes an element.
      all[0].add_(all[1]);
      finish(all[0]);
    }
    seconds.push_back(seconds_since(begin));
  }
  const double bytes = device.is_cpu() ? kUpdateBytes : kSumBytes;
  return bytes * static_cast<double>(kUpdated) / median(std::move(seconds));
}

}  // namespace

StepRates measure_rates(const ModelConfig& config, const LoadOptions& options,
                        const TimedPack& pack) {
  const int64_t tokens = pack.input.tokens.size(0), rows = pack.target.size(0);
  XRUN_CHECK(tokens > 0 && rows > 0, "a pack to be timed has {} tokens and {} targets", tokens,
             rows);
  StepRates out;
  out.blocks = block_rates(config, options, pack.input);
  // A model without layers has the head and the embedding.
  ModelConfig bare = config;
  bare.layers = 0;
  bare.moe_layers.clear();
  bare.windows.clear();
  bare.vocab = std::min(config.vocab, options.device.is_cpu() ? kMostVocab : config.vocab);
  LoadOptions none = options;
  none.train.clear();
  const bool trains = trains_base(options);
  if (!trains) none.trainable = false;
  none.adapter = nullptr;
  TimedModel ends(bare, none);
  const auto below = [&](const at::Tensor& ids) { return ids.remainder(bare.vocab); };
  const int64_t timed_rows = timed_items(rows, 3 * head_flops(bare, 1), kHeadFlops, options.device);
  const PassSeconds head = ends.time_head(below(pack.target.slice(0, 0, timed_rows)));
  const double flops = head_flops(bare, timed_rows);
  out.head = {flops / head.forward, (trains ? 2 : 1) * flops / head.backward};
  out.memory = update_rate(options.device);
  const PassSeconds embedding = ends.time_embedding(below(pack.input.tokens));
  out.micro_s = (embedding.forward + embedding.backward) * static_cast<double>(config.vocab) /
                static_cast<double>(bare.vocab);
  // A tied weight has two gradients, which are added.
  if (trains && config.tied) {
    out.micro_s += kSumBytes * static_cast<double>(config.vocab * config.hidden) / out.memory;
  }
  return out;
}

}  // namespace xrun
