#include "core/model/feed_forward.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>

#include "core/base/error.h"
#include "core/model/block.h"
#include "core/model/moe.h"
#include "core/model/ops/moe_experts.h"
#include "core/model/ops/swiglu.h"

namespace xrun {

namespace {

at::Tensor mixture(const Pass& pass, const BlockPlaces& places, const at::Tensor& x) {
  const MoeConfig& moe = pass.config.moe;
  const Routing routing = route(pass.linear(places.router, x), moe.top_k, moe.renormalise);
  if (pass.router != nullptr) pass.router->add_layer(routing);
  return moe_experts(x, routing.index, routing.weight, pass.weight(places.expert_gate_up),
                     pass.weight(places.expert_down), pass.gemm);
}

}  // namespace

at::Tensor activate(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::kSilu: return at::silu(x);
    case Activation::kGeluTanh: return at::gelu(x, "tanh");
    case Activation::kGelu: return at::gelu(x);
    case Activation::kRelu: return at::relu(x);
  }
  throw Error("unknown activation");
}

at::Tensor feed_forward(const Pass& pass, const BlockPlaces& places, const at::Tensor& x) {
  if (places.router.weight >= 0) return mixture(pass, places, x);
  const ModelConfig& c = pass.config;
  const at::Tensor up = pass.linear(places.up, x);
  if (!c.gated) return pass.linear(places.down, activate(c.activation, up));
  const at::Tensor gate = pass.linear(places.gate, x);
  const bool fused = c.activation == Activation::kSilu;
  return pass.linear(places.down, fused ? swiglu(gate, up) : activate(c.activation, gate).mul(up));
}

}  // namespace xrun
