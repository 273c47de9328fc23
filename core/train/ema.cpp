// Each step of the average is rounded by itself, so that no fused multiply-add of a vector loop
// makes its bits depend on where a range begins.

#include "core/train/ema.h"

#include <ATen/core/grad_mode.h>

#include "core/base/error.h"
#include "core/train/adamw.h"
#include "core/train/adamw_state.h"

namespace xrun {

namespace {

constexpr const char* kPrefix = "ema.";

}  // namespace

std::shared_ptr<Ema> Ema::of(std::shared_ptr<AdamW> adamw, double decay) {
  if (!(decay >= 0 && decay < 1)) {
    throw UsageError(fmt::format("decay is {}, wanted a number of at least 0 and below 1", decay));
  }
  std::shared_ptr<Ema> ema(new Ema(adamw, decay));
  adamw->add_average(ema);
  return ema;
}

void Ema::before_update(const AdamWState& weights) {
  XRUN_CHECK(!in_use_,
             "cannot update inside ema:use, where the weights are the average; train outside it");
  // The average starts at the weights before the first update, which load at the first forward.
  if (!average_.empty()) return;
  const at::NoGradGuard no_grad;
  average_ = weights.zeros();
  weights.each(average_,
               [](const at::Tensor& weight, const at::Tensor& average) { average.copy_(weight); });
}

void Ema::after_update(const AdamWState& weights) {
  const at::NoGradGuard no_grad;
  weights.each(average_, [&](const at::Tensor& weight, const at::Tensor& average) {
    // average + (1 - decay)(weight - average) = decay average + (1 - decay) weight.
    average.add_(weight.sub(average).mul_(1 - decay_));
  });
  ++updates_;
}

void Ema::swap_ranges(AdamWState& weights) {
  weights.each(average_, [](const at::Tensor& weight, const at::Tensor& average) {
    // Swapped, not copied: using it twice gives the weights back with their bits.
    const at::Tensor before = weight.clone();
    weight.copy_(average);
    average.copy_(before);
  });
  in_use_ = !in_use_;
}

void Ema::leave() {
  const at::NoGradGuard no_grad;
  if (in_use_) swap_ranges(adamw_->state_of_weights());
}

void Ema::swap() {
  if (average_.empty()) return;
  const at::NoGradGuard no_grad;
  AdamWState& weights = adamw_->state_of_weights();
  swap_ranges(weights);
  // So far each rank has swapped only its own ranges.
  weights.share_weights();
  for (const auto& trainable : adamw_->trainables()) trainable->weights_averaged(in_use_);
}

std::vector<NamedTensor> Ema::tensors() const {
  if (average_.empty() || adamw_->dist().divides_moments()) return {};
  return adamw_->weights_->tensors({{kPrefix, &average_}});
}

std::vector<TensorRange> Ema::ranges() const {
  if (average_.empty() || !adamw_->dist().divides_moments()) return {};
  return adamw_->weights_->ranges({{kPrefix, &average_}});
}

Json Ema::state() const {
  XRUN_CHECK(!in_use_,
             "cannot save a checkpoint inside ema:use, where the weights are the average");
  Json state = Json::object();
  state.set("updates", updates_);
  state.set("has_average", !average_.empty());
  return state;
}

void Ema::restore(const TensorSource& tensor, const Json& state) {
  updates_ = state.at("updates").as_int();
  average_.clear();
  if (!state.at("has_average").as_bool()) return;
  AdamWState& weights = adamw_->state_of_weights();
  average_ = weights.zeros();
  weights.restore(tensor, {{kPrefix, &average_}});
}

}  // namespace xrun
