// The forward computes y = block(x) without a graph and saves x. The backward computes block(x)
// again with a graph and runs that graph's backward at once; the gradients of weights accumulate in
// their leaves (Chen et al. 2016).

#include "core/model/recompute.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include "core/model/ops/op.h"

namespace xrun {

namespace {

// Autograd saves IValues, so the function travels in a capsule.
struct HeldBlock : torch::CustomClassHolder {
  explicit HeldBlock(TensorBlock b) : block(std::move(b)) {}
  TensorBlock block;
};

using torch::autograd::variable_list;

// `node` requires a gradient, so that there is a backward even if x requires none, as in the first
// block after a frozen embedding.
class RecomputeFunction : public torch::autograd::Function<RecomputeFunction> {
 public:
  static variable_list forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x,
                               const at::Tensor& /*node*/, const TensorBlock& block) {
    ctx->save_for_backward({x});
    ctx->set_materialize_grads(false);
    ctx->saved_data["block"] = c10::IValue::make_capsule(c10::make_intrusive<HeldBlock>(block));
    ctx->saved_data["x_wanted"] = x.requires_grad();
    const at::NoGradGuard no_grad;
    return block(x);
  }

  static variable_list backward(torch::autograd::AutogradContext* ctx, variable_list grads) {
    refuse_second_derivative("a recomputed block");
    const bool x_wanted = ctx->saved_data["x_wanted"].toBool();
    const auto held = ctx->saved_data["block"].toCapsule();
    const at::AutoGradMode with_gradients(true);
    const at::Tensor x = ctx->get_saved_variables()[0].detach().set_requires_grad(x_wanted);
    const variable_list outputs = static_cast<HeldBlock*>(held.get())->block(x);
    variable_list roots, root_grads;
    for (size_t i = 0; i < outputs.size(); ++i) {
      // Only outputs that the loss reached.
      if (!grads[i].defined() || !outputs[i].requires_grad()) continue;
      roots.push_back(outputs[i]);
      root_grads.push_back(grads[i]);
    }
    // Weights get their gradients here, outside the outer graph.
    if (!roots.empty()) torch::autograd::backward(roots, root_grads);
    return {x.grad(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

std::vector<at::Tensor> recomputed(const TensorBlock& block, const at::Tensor& x) {
  if (!at::GradMode::is_enabled()) return block(x);
  const at::Tensor node = at::empty({0}, at::kFloat).set_requires_grad(true);
  return RecomputeFunction::apply(x, node, block);
}

}  // namespace xrun
