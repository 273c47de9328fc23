#include "core/model/feed_forward.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>

#include "core/base/error.h"
#include "core/model/block.h"
#include "core/model/swiglu.h"

namespace xrun {

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
  const ModelConfig& c = pass.config;
  const at::Tensor up = pass.linear(places.up, x);
  if (!c.gated) return pass.linear(places.down, activate(c.activation, up));
  const at::Tensor gate = pass.linear(places.gate, x);
  const bool fused = c.activation == Activation::kSilu;
  return pass.linear(places.down, fused ? swiglu(gate, up) : activate(c.activation, gate).mul(up));
}

}  // namespace xrun
