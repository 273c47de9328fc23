// Loshchilov and Hutter 2019, algorithm 2, in the order of torch.optim.AdamW. t counts a weight's
// updates from 1. With g clipped to norm c: g *= min(1, c / (norm + 1e-6)), then
//   p *= 1 - lr wd;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//   p -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)

#include "core/train/adamw.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/model/model.h"
#include "core/train/adamw_state.h"
#include "core/train/element_runs.h"
#include "core/train/ema.h"

namespace xrun {
namespace {

void check_options(const AdamWOptions& o) {
  // UsageError: a wrong optimizer setting is a wrong configuration, exit status 2.
  auto check = [](bool ok, const char* name, double got, const char* wanted) {
    if (!ok) throw UsageError(fmt::format("optim.{} is {}, wanted {}", name, got, wanted));
  };
  check(o.lr > 0 && std::isfinite(o.lr), "lr", o.lr, "a number above 0");
  check(o.warmup >= 0 && std::isfinite(o.warmup), "warmup", o.warmup,
        "a number of steps, or a share of them below 1");
  check(o.beta1 >= 0 && o.beta1 < 1, "betas[1]", o.beta1, "a number of at least 0 and below 1");
  check(o.beta2 >= 0 && o.beta2 < 1, "betas[2]", o.beta2, "a number of at least 0 and below 1");
  check(o.eps >= 0 && std::isfinite(o.eps), "eps", o.eps, "a number of at least 0");
  check(o.weight_decay >= 0 && std::isfinite(o.weight_decay), "weight_decay", o.weight_decay,
        "a number of at least 0");
  check(o.clip >= 0 && std::isfinite(o.clip), "clip", o.clip, "a norm above 0, or 0 for none");
}

// Scalars are computed in double and rounded once: beta^t loses digits in float.
kernels::AdamWFactors factors_of(const AdamWOptions& o, double lr, double clip, int64_t count,
                                 bool decays) {
  const auto t = static_cast<double>(count);
  kernels::AdamWFactors f;
  f.decay = static_cast<float>(decays ? 1.0 - lr * o.weight_decay : 1.0);
  f.beta1_rest = static_cast<float>(1.0 - o.beta1);
  f.beta2 = static_cast<float>(o.beta2);
  f.beta2_rest = static_cast<float>(1.0 - o.beta2);
  f.step = static_cast<float>(lr / (1.0 - std::pow(o.beta1, t)));
  f.root = static_cast<float>(std::sqrt(1.0 - std::pow(o.beta2, t)));
  f.eps = static_cast<float>(o.eps);
  f.clip = static_cast<float>(clip);
  return f;
}

// Returns the sum of squares of all gradients. The slices of each are added in order, so the bits
// are the same on any number of threads.
double cpu_sum_of_squares(const std::vector<at::Tensor>& gradients) {
  std::vector<double> sums(gradients.size());
  std::vector<GradientSlice> slices;
  std::vector<size_t> gradient_of;
  const auto add = [&](size_t i, const at::Tensor& dense) {
    const float* values = dense.const_data_ptr<float>();
    for (int64_t c = 0; c < dense.numel(); c += kSliceElements) {
      slices.push_back({values + c, std::min(kSliceElements, dense.numel() - c)});
      gradient_of.push_back(i);
    }
  };
  const auto sum = [&] {
    const std::vector<double> found = sums_of_squares(slices);
    for (size_t c = 0; c < found.size(); ++c) sums[gradient_of[c]] += found[c];
    slices.clear();
    gradient_of.clear();
  };
  for (size_t i = 0; i < gradients.size(); ++i) {
    const at::Tensor dense = gradients[i].to(at::kFloat).contiguous();  // fp64 only in tests
    add(i, dense);
    // A copy lives only here: autograd may leave transposed gradients.
    if (!dense.is_same(gradients[i])) sum();
  }
  sum();
  double total = 0;
  for (const double one : sums) total += one;
  return total;
}

}  // namespace

Schedule schedule_of(std::string_view name) {
  if (name == "constant") return Schedule::kConstant;
  if (name == "linear") return Schedule::kLinear;
  if (name == "cosine") return Schedule::kCosine;
  throw UsageError(
      fmt::format("\"{}\" is not a schedule; the schedules are constant, linear and cosine", name));
}

int64_t warmup_steps(double warmup, int64_t total_steps) {
  // transformers: a share is rounded up, so that a small share of a short run still warms up.
  if (warmup >= 1.0) return static_cast<int64_t>(warmup);
  return static_cast<int64_t>(std::ceil(static_cast<double>(total_steps) * warmup));
}

// warmup: k / warmup, from 0; then  linear: (T - k) / (T - warmup);
// cosine: (1 + cos(pi (k - warmup) / (T - warmup))) / 2, as in transformers.
double schedule_factor(Schedule schedule, int64_t k, int64_t warmup, int64_t total_steps) {
  auto fraction = [](int64_t a, int64_t b) {
    // A run of only warmup steps would divide by 0.
    return static_cast<double>(a) / static_cast<double>(std::max<int64_t>(1, b));
  };
  if (k < warmup) return fraction(k, warmup);
  switch (schedule) {
    case Schedule::kConstant: return 1.0;
    case Schedule::kLinear: return std::max(0.0, fraction(total_steps - k, total_steps - warmup));
    case Schedule::kCosine: {
      const double done = fraction(k - warmup, total_steps - warmup);
      return std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi * done)));
    }
  }
  return 1.0;
}

AdamW::AdamW(std::vector<std::shared_ptr<Trainable>> trainables, AdamWOptions options,
             DistOptions dist)
    : trainables_(std::move(trainables)), options_(options), dist_(dist) {
  check_options(options_);
  XRUN_CHECK(!trainables_.empty(), "an optimizer needs something to train");
}

AdamW::~AdamW() = default;

double AdamW::lr(int64_t step, int64_t total_steps) const {
  // A constant schedule reads no length, so a loop without one may still train.
  XRUN_CHECK(total_steps > 0 || options_.schedule == Schedule::kConstant,
             "this batch does not know how many steps its loop has, which the learning-rate "
             "schedule needs; set optim.schedule = \"constant\" or pass lr to the step");
  return options_.lr * schedule_factor(options_.schedule, step,
                                       warmup_steps(options_.warmup, total_steps), total_steps);
}

std::string AdamW::short_run_text(int64_t total_steps) const {
  const int64_t warmup = warmup_steps(options_.warmup, total_steps);
  if (total_steps <= 0 || warmup < total_steps) return "";
  if (total_steps == 1) {
    return "optim.warmup covers the only step, whose learning rate is 0; nothing is trained: set "
           "optim.warmup=0";
  }
  return fmt::format(
      "optim.warmup is {} steps and the run has {}, so the learning rate reaches {:.3g} at most and "
      "never optim.lr = {:.3g}; a number below 1 is a share of the steps: --set optim.warmup=0.1",
      count_text(warmup), count_text(total_steps), lr(total_steps - 1, total_steps), options_.lr);
}

// Made late, because weights load at the first forward; a dry run never makes it.
AdamWState& AdamW::state_of_weights() {
  if (!weights_) weights_ = std::make_unique<AdamWState>(trainables_, dist_);
  return *weights_;
}

void AdamW::begin_exchange(const ExchangedItems& items) {
  // Ranks keep an item's gradient apart from the sums anyway.
  if (dist_.ranks != nullptr) return state_of_weights().exchange()->begin_exchange(items);
  // autograd adds one backward to the sum in the order of the items.
  if (items.one_backward) return;
  for (const auto& trainable : trainables_) {
    if (!trainable->loaded()) continue;
    for (Parameter& parameter : trainable->parameters()) {
      at::Tensor& gradient = parameter.master.mutable_grad();
      if (gradient.defined()) earlier_.emplace_back(parameter.master, std::move(gradient));
    }
  }
}

void AdamW::end_exchange() {
  if (dist_.ranks != nullptr) return state_of_weights().exchange()->end_exchange();
  const at::NoGradGuard no_grad;
  for (auto& [weight, sum] : earlier_) {
    at::Tensor& gradient = weight.mutable_grad();
    if (gradient.defined()) sum.add_(gradient);
    gradient = std::move(sum);
  }
  earlier_.clear();
}

std::vector<NamedTensor> AdamW::gradients() {
  if (dist_.ranks != nullptr) return state_of_weights().gradients();
  std::vector<NamedTensor> out;
  for (size_t i = 0; i < trainables_.size(); ++i) {
    // Asking an unloaded policy for its parameters would load its weights.
    if (!trainables_[i]->loaded()) continue;
    const std::string prefix = i == 0 ? std::string() : fmt::format("{}/", i);
    for (const Parameter& parameter : trainables_[i]->parameters()) {
      if (!parameter.master.grad().defined()) continue;
      out.push_back({prefix + parameter.name, parameter.master.grad()});
    }
  }
  return out;
}

void AdamW::clear_gradients() {
  earlier_.clear();
  if (weights_) weights_->clear_gradients();
  for (const auto& trainable : trainables_) {
    if (!trainable->loaded()) continue;
    for (Parameter& parameter : trainable->parameters()) parameter.master.mutable_grad().reset();
  }
}

at::Tensor AdamW::grad_norm() {
  const auto fp64 = at::TensorOptions().dtype(at::kDouble);
  // ATen's root in both cases: that of the C library may differ in the last bit.
  if (dist_.ranks != nullptr) return at::scalar_tensor(state_of_weights().squares(), fp64).sqrt();
  std::vector<at::Tensor> on_cpu, elsewhere;
  for (const NamedTensor& gradient : gradients()) {
    if (gradient.tensor.device().is_cpu()) {
      on_cpu.push_back(gradient.tensor);
    } else {
      elsewhere.push_back(
          at::linalg_vector_norm(gradient.tensor, 2, {}, false, at::kDouble).square());
    }
  }
  const double sum = cpu_sum_of_squares(on_cpu);
  if (elsewhere.empty()) return at::scalar_tensor(sum, fp64).sqrt();
  // One tensor on the device: the caller reads it together with the losses, in a single sync.
  return at::stack(elsewhere).sum().add(sum).sqrt();
}

std::vector<std::shared_ptr<Ema>> AdamW::averages() const {
  std::vector<std::shared_ptr<Ema>> living;
  for (const std::weak_ptr<Ema>& average : averages_) {
    if (auto one = average.lock()) living.push_back(std::move(one));
  }
  return living;
}

void AdamW::update(double lr, double norm) {
  // torch.nn.utils.clip_grad_norm_: 1e-6 keeps the division finite and is part of its bits.
  const double ratio = options_.clip > 0 ? options_.clip / (norm + 1e-6) : 1.0;
  const double clip = std::min(1.0, ratio);
  AdamWState& weights = state_of_weights();
  const std::vector<std::shared_ptr<Ema>> averages = this->averages();
  for (const auto& average : averages) average->before_update(weights);
  weights.make_moments();
  // Norms and biases are 1-D and are not decayed.
  weights.update(
      [&](int64_t count, int64_t dims) { return factors_of(options_, lr, clip, count, dims > 1); });
  for (const auto& average : averages) average->after_update(weights);
  for (const auto& trainable : trainables_) trainable->count_update();
  ++update_count_;
  weights.end_update();
  // Freed before the next forward, which needs the memory for activations.
  clear_gradients();
}

std::vector<NamedTensor> AdamW::tensors() const {
  if (!weights_ || dist_.divides_moments()) return {};
  return weights_->tensors(weights_->moments());
}

std::vector<TensorRange> AdamW::ranges() const {
  if (!weights_ || !dist_.divides_moments() || !weights_->has_moments()) return {};
  return weights_->ranges(weights_->moments());
}

Json AdamW::state() const {
  XRUN_CHECK(!weights_ || !weights_->updating(),
             "cannot save the optimizer: an error stopped it in the middle of an update");
  Json counts = Json::object();
  if (weights_ && weights_->has_moments()) {
    for (size_t i = 0; i < weights_->counts().size(); ++i) {
      const int64_t count = weights_->counts()[i];
      // Almost always equal, so only the exceptions are stored.
      if (count != update_count_) counts.set(weights_->weights()[i].name, count);
    }
  }
  Json state = Json::object();
  state.set("updates", update_count_);
  state.set("has_moments", weights_ && weights_->has_moments());
  state.set("counts", counts);  // of the weights that were skipped at times
  return state;
}

void AdamW::restore(const TensorSource& tensor, const Json& state) {
  update_count_ = state.at("updates").as_int();
  weights_.reset();
  if (!state.at("has_moments").as_bool()) return;
  AdamWState& weights = state_of_weights();
  weights.make_moments();
  weights.restore(tensor, weights.moments());
  const Json& counts = state.at("counts");
  for (size_t i = 0; i < weights_->counts().size(); ++i) {
    const Json* count = counts.find(weights_->weights()[i].name);
    weights_->counts()[i] = count != nullptr ? count->as_int() : update_count_;
  }
}

void AdamW::abandon_shared() {
  for (const auto& average : averages()) average->leave();
  if (weights_) weights_->abandon_shared();
}

bool AdamW::average_in_use() const {
  const auto all = averages();
  return std::any_of(all.begin(), all.end(), [](const auto& average) { return average->in_use(); });
}

void AdamW::share_again() {
  // Before the first update every rank has read the same weights.
  if (weights_ && weights_->has_moments()) weights_->share_again();
}

}  // namespace xrun
