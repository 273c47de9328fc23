// Times the AdamW update with the gradient norm against the same computation by ATen's operators,
// after checking that both give the same weights.
//   adamw_bench [million elements, 32 if absent]
// Runs alternate. The bandwidth counts 32 bytes per element: 28 for the update (p, g, m, v read; p,
// m, v written) and 4 for the norm. That of a copy counts 8.

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "core/model/model.h"
#include "core/train/adamw.h"
#include "core/train/models/saveable.h"
#include "tools/bench/spread.h"

namespace xrun {
namespace {

class OneWeight : public Trainable {
 public:
  explicit OneWeight(const at::Tensor& start) {
    parameters_.push_back({"weight", start.clone().requires_grad_(true)});
  }
  std::vector<Parameter>& parameters() override { return parameters_; }
  bool loaded() const override { return true; }
  void count_update() override {}
  at::Tensor& master() { return parameters_[0].master; }

 private:
  std::vector<Parameter> parameters_;
};

// One update as torch.optim.AdamW computes it, with lr 1e-3 and gradients clipped to norm 1.
void update_by_operators(at::Tensor p, at::Tensor g, at::Tensor m, at::Tensor v, int t) {
  const double clip = std::min(1.0, 1.0 / (at::linalg_vector_norm(g).item().toDouble() + 1e-6));
  g.mul_(clip);
  m.lerp_(g, 0.1);
  v.mul_(0.999).addcmul_(g, g, 0.001);
  const double root = std::sqrt(1 - std::pow(0.999, t));
  p.addcdiv_(m, v.sqrt().div_(root).add_(1e-8), -1e-3 / (1 - std::pow(0.9, t)));
}

int run(int64_t n) {
  const at::NoGradGuard no_grad;
  const at::Tensor start = at::randn({n / 1024, 1024}), gradient = at::randn({n / 1024, 1024});
  auto weight = std::make_shared<OneWeight>(start);
  AdamWOptions options;
  options.lr = 1e-3;
  AdamW adamw({weight}, options);
  at::Tensor p = start.clone(), g = gradient.clone();
  at::Tensor m = at::zeros_like(p), v = at::zeros_like(p);

  const auto ours = [&] {
    weight->master().mutable_grad() = gradient;  // each update releases it
    adamw.update(1e-3, adamw.grad_norm().item().toDouble());
  };
  ours();
  update_by_operators(p, g, m, v, 1);
  const double apart = p.sub(weight->master()).abs().max().item().toDouble();
  if (!(apart < 1e-6)) {
    fmt::print(stderr, "adamw_bench: the weights differ by {}\n", apart);
    return 1;
  }

  int t = 1;
  at::Tensor copy = at::zeros_like(p);
  const Pairs operators = interleave(11, ours, [&] { update_by_operators(p, g, m, v, ++t); });
  const Pairs copies = interleave(11, ours, [&] { copy.copy_(p); });
  std::vector<double> shares;
  for (const double ratio : copies.ratio) shares.push_back(32.0 / 8 / ratio);
  const std::string name = fmt::format("adamw, {} M weights", p.numel() >> 20);
  print_note("{} threads\n", at::get_num_threads());
  print_figure({name, operators.a_ms, "ms", operators.ratio, "of the time of ATen's operators"});
  print_figure({name + ", bandwidth", shares, "of a copy's"});
  return 0;
}

}  // namespace
}  // namespace xrun

int main(int argc, char** argv) {
  const int64_t millions = argc > 1 ? std::atoll(argv[1]) : 32;
  return xrun::run(std::max<int64_t>(1, millions) << 20);
}
