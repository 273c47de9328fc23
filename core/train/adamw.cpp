// Loshchilov and Hutter 2019, algorithm 2, in the order of torch.optim.AdamW. t counts a weight's
// updates from 1. With g clipped to norm c: g *= min(1, c / (norm + 1e-6)), then
//   p *= 1 - lr wd;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//   p -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)

#include "core/train/adamw.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/base/error.h"
#include "core/model/model.h"
#include "kernels/cpu/adamw.h"

namespace xrun {
namespace {

// Elements per task: a fixed split, so that the number of threads does not change the norm.
constexpr int64_t kChunk = 1 << 16;

void check_options(const AdamWOptions& o) {
  // UsageError: a wrong optimizer setting is a wrong configuration, exit status 2.
  auto check = [](bool ok, const char* name, double got, const char* wanted) {
    if (!ok) throw UsageError(fmt::format("optim.{} is {}, wanted {}", name, got, wanted));
  };
  check(o.lr > 0 && std::isfinite(o.lr), "lr", o.lr, "a number above 0");
  check(o.warmup >= 0 && std::isfinite(o.warmup), "warmup", o.warmup,
        "a number of steps, or a share of them below 1");
  check(o.beta1 >= 0 && o.beta1 < 1, "betas[1]", o.beta1, "a number from 0 to below 1");
  check(o.beta2 >= 0 && o.beta2 < 1, "betas[2]", o.beta2, "a number from 0 to below 1");
  check(o.eps >= 0 && std::isfinite(o.eps), "eps", o.eps, "a number from 0");
  check(o.weight_decay >= 0 && std::isfinite(o.weight_decay), "weight_decay", o.weight_decay,
        "a number from 0");
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

// The same update through ATen, for weights on another device.
void update_by_ops(at::Tensor p, const at::Tensor& grad, at::Tensor m, at::Tensor v,
                   const kernels::AdamWFactors& f) {
  // lerp_ and addcdiv_ in the order of the kernel: m before v before p, because p reads both.
  const at::Tensor g = grad.mul(f.clip);
  m.lerp_(g, f.beta1_rest);
  v.mul_(f.beta2).addcmul_(g, g, f.beta2_rest);
  p.mul_(f.decay).addcdiv_(m, v.sqrt().div_(f.root).add_(f.eps), -f.step);
}

void update_weight(at::Tensor p, const at::Tensor& grad, at::Tensor m, at::Tensor v,
                   const kernels::AdamWFactors& f) {
  if (!p.device().is_cpu()) return update_by_ops(p, grad, m, v, f);
  // Autograd may leave a transposed gradient; the kernel walks flat memory.
  const at::Tensor dense = grad.contiguous();
  float* weight = p.mutable_data_ptr<float>();
  const float* gradient = dense.const_data_ptr<float>();
  float* mean = m.mutable_data_ptr<float>();
  float* square = v.mutable_data_ptr<float>();
  at::parallel_for(0, p.numel(), kChunk, [&](int64_t begin, int64_t end) {
    kernels::adamw_update(weight + begin, gradient + begin, mean + begin, square + begin,
                          end - begin, f);
  });
}

double cpu_sum_of_squares(const at::Tensor& gradient) {
  const at::Tensor dense = gradient.to(at::kFloat).contiguous();  // fp64 only in tests
  const float* x = dense.const_data_ptr<float>();
  const int64_t n = dense.numel();
  const int64_t chunks = (n + kChunk - 1) / kChunk;
  std::vector<double> sums(static_cast<size_t>(chunks));
  at::parallel_for(0, chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      sums[static_cast<size_t>(c)] =
          kernels::sum_of_squares(x + c * kChunk, std::min(kChunk, n - c * kChunk));
    }
  });
  double sum = 0;
  // The chunks are added in index order, so the norm has the same bits on any number of threads.
  for (double partial : sums) sum += partial;
  return sum;
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

AdamW::AdamW(std::vector<std::shared_ptr<Trainable>> trainables, AdamWOptions options)
    : trainables_(std::move(trainables)), options_(options) {
  check_options(options_);
  XRUN_CHECK(!trainables_.empty(), "an optimizer needs something to train");
}

double AdamW::lr(int64_t step, int64_t total_steps) const {
  // A constant schedule reads no length, so a loop without one may still train.
  XRUN_CHECK(total_steps > 0 || options_.schedule == Schedule::kConstant,
             "this batch does not know how many steps its loop has, which the learning-rate "
             "schedule needs; set optim.schedule = \"constant\" or pass lr to the step");
  return options_.lr * schedule_factor(options_.schedule, step,
                                       warmup_steps(options_.warmup, total_steps), total_steps);
}

void AdamW::make_moments() {
  // Late, because weights load at the first forward; a dry run never makes them.
  if (!moments_.empty()) return;
  for (size_t i = 0; i < trainables_.size(); ++i) {
    // Several trained objects may use one name; the first has the names of the checkpoint.
    const std::string prefix = i == 0 ? std::string() : fmt::format("{}/", i);
    for (const Parameter& parameter : trainables_[i]->parameters()) {
      const at::Tensor& master = parameter.master;
      XRUN_CHECK(master.defined() && master.scalar_type() == at::kFloat && master.requires_grad(),
                 "{} cannot be trained: wanted an fp32 weight that requires a gradient",
                 parameter.name);
      const at::Tensor like = master.detach();
      moments_.push_back({prefix + parameter.name, at::zeros_like(like), at::zeros_like(like), 0});
    }
  }
}

std::vector<at::Tensor> AdamW::gradients() const {
  std::vector<at::Tensor> out;
  for (const auto& trainable : trainables_) {
    // Asking an unloaded policy for its parameters would load its weights.
    if (!trainable->loaded()) continue;
    for (const Parameter& parameter : trainable->parameters()) {
      if (parameter.master.grad().defined()) out.push_back(parameter.master.grad());
    }
  }
  return out;
}

void AdamW::clear_gradients() {
  for (const auto& trainable : trainables_) {
    if (!trainable->loaded()) continue;
    for (Parameter& parameter : trainable->parameters()) parameter.master.mutable_grad().reset();
  }
}

at::Tensor AdamW::grad_norm() const {
  double on_cpu = 0;
  std::vector<at::Tensor> elsewhere;
  for (const at::Tensor& gradient : gradients()) {
    if (gradient.device().is_cpu()) {
      on_cpu += cpu_sum_of_squares(gradient);
    } else {
      elsewhere.push_back(at::linalg_vector_norm(gradient, 2, {}, false, at::kDouble).square());
    }
  }
  const at::Tensor host = at::scalar_tensor(on_cpu, at::TensorOptions().dtype(at::kDouble));
  if (elsewhere.empty()) return host.sqrt();
  // One tensor on the device: the caller reads it together with the losses, in a single sync.
  return at::stack(elsewhere).sum().add(on_cpu).sqrt();
}

void AdamW::update(double lr, double norm) {
  const at::NoGradGuard no_grad;
  make_moments();
  // torch.nn.utils.clip_grad_norm_: 1e-6 keeps the division finite and is part of its bits.
  const double ratio = options_.clip > 0 ? options_.clip / (norm + 1e-6) : 1.0;
  const double clip = std::min(1.0, ratio);
  size_t i = 0;
  for (const auto& trainable : trainables_) {
    for (Parameter& parameter : trainable->parameters()) {
      Moments& moments = moments_[i++];
      const at::Tensor& gradient = parameter.master.grad();
      // A weight that this loss does not use is neither decayed nor counted.
      if (!gradient.defined()) continue;
      ++moments.count;
      // Norms and biases are 1-D and are not decayed.
      const bool decays = parameter.master.dim() > 1;
      update_weight(parameter.master.detach(), gradient, moments.exp_avg, moments.exp_avg_sq,
                    factors_of(options_, lr, clip, moments.count, decays));
    }
    // After all weights of the object: a forward in between would mix two versions.
    trainable->count_update();
  }
  ++update_count_;
  // Freed before the next forward, which needs the memory for activations.
  clear_gradients();
}

std::vector<NamedTensor> AdamW::tensors() const {
  std::vector<NamedTensor> out;
  for (const Moments& moments : moments_) {
    out.push_back({"exp_avg." + moments.name, moments.exp_avg});
    out.push_back({"exp_avg_sq." + moments.name, moments.exp_avg_sq});
  }
  return out;
}

Json AdamW::state() const {
  Json counts = Json::object();
  for (const Moments& moments : moments_) {
    // Almost always equal, so only the exceptions are stored.
    if (moments.count != update_count_) counts.set(moments.name, moments.count);
  }
  Json state = Json::object();
  state.set("updates", update_count_);
  state.set("has_moments", !moments_.empty());
  state.set("counts", counts);  // of the weights that were skipped at times
  return state;
}

void AdamW::restore(const TensorSource& tensor, const Json& state) {
  const at::NoGradGuard no_grad;
  update_count_ = state.at("updates").as_int();
  moments_.clear();
  if (!state.at("has_moments").as_bool()) return;
  make_moments();
  const Json& counts = state.at("counts");
  for (Moments& moments : moments_) {
    for (const auto& [name, target] :
         {std::pair<std::string, at::Tensor>{"exp_avg." + moments.name, moments.exp_avg},
          {"exp_avg_sq." + moments.name, moments.exp_avg_sq}}) {
      // Read one at a time: the whole optimizer state is twice the weights.
      const at::Tensor saved = tensor(name);
      XRUN_CHECK(saved.sizes() == target.sizes(),
                 "the saved optimizer state {} has {} elements, wanted {}: it belongs to another "
                 "model",
                 name, saved.numel(), target.numel());
      target.copy_(saved);
    }
    const Json* count = counts.find(moments.name);
    moments.count = count != nullptr ? count->as_int() : update_count_;
  }
}

}  // namespace xrun
