// With xn = x rstd, of a row of D:  dx = rstd (g w - xn mean(g w xn)),  dweight = sum over rows g
// xn. With s the logistic of g:  silu'(g) = s (1 + g (1 - s)).

#include "kernels/cuda/layers.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/square.h>

namespace xrun::kernels {

namespace {

at::Tensor wide(const at::Tensor& x) { return x.to(at::kFloat); }

// Recipes reach these ops too: a shape that only broadcasts is no argument.
void check_like(const char* op, const char* name, const at::Tensor& x, at::IntArrayRef sizes) {
  TORCH_CHECK(x.sizes() == sizes, op, ": ", name, " is ", x.sizes(), ", wanted ", sizes);
}

void check_norm(const at::Tensor& x, const at::Tensor& weight) {
  TORCH_CHECK(x.dim() > 0 && x.size(-1) > 0 && x.is_floating_point(), "rms_norm: x is ", x.sizes(),
              ", wanted floating-point rows of at least one");
  check_like("rms_norm", "weight", weight, {x.size(-1)});
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> rms_norm_forward(const at::Tensor& x, const at::Tensor& weight,
                                                    double eps) {
  check_norm(x, weight);
  const at::Tensor x32 = wide(x);
  const at::Tensor rstd = at::rsqrt(at::square(x32).mean(-1, /*keepdim=*/true).add(eps));
  const at::Tensor normed = x32.mul(rstd).to(x.scalar_type());
  return {normed.mul(weight).to(x.scalar_type()), rstd.flatten()};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& grad, const at::Tensor& x,
                                                     const at::Tensor& weight,
                                                     const at::Tensor& rstd) {
  check_norm(x, weight);
  check_like("rms_norm", "grad", grad, x.sizes());
  const int64_t width = x.size(-1), rows = x.numel() / width;
  check_like("rms_norm", "rstd", rstd, {rows});
  const at::Tensor scale = rstd.unsqueeze(1);
  const at::Tensor xn = wide(x).reshape({rows, width}).mul(scale);
  const at::Tensor g = wide(grad.to(x.scalar_type())).reshape({rows, width});
  const at::Tensor gw = g.mul(wide(weight));
  const at::Tensor dot = gw.mul(xn).mean(-1, /*keepdim=*/true);
  const at::Tensor dx = gw.sub(xn.mul(dot)).mul(scale);
  return {dx.to(x.scalar_type()).view(x.sizes()), g.mul(xn).sum(0)};
}

at::Tensor rope_rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                       bool inverse) {
  TORCH_CHECK(x.dim() == 3 && x.size(2) % 2 == 0, "rope: x is ", x.sizes(),
              ", wanted [T, H, K] with an even K");
  const int64_t half = x.size(2) / 2;
  check_like("rope", "cos", cos, {x.size(0), half});
  check_like("rope", "sin", sin, {x.size(0), half});
  const at::Tensor low = wide(x.narrow(2, 0, half)), high = wide(x.narrow(2, half, half));
  const at::Tensor c = cos.unsqueeze(1), s = inverse ? sin.neg().unsqueeze(1) : sin.unsqueeze(1);
  return at::cat({low.mul(c).sub_(high.mul(s)), high.mul(c).add_(low.mul(s))}, 2)
      .to(x.scalar_type());
}

at::Tensor swiglu_forward(const at::Tensor& gate, const at::Tensor& up) {
  check_like("swiglu", "up", up, gate.sizes());
  return at::silu(gate).mul(up);
}

std::tuple<at::Tensor, at::Tensor> swiglu_backward(const at::Tensor& grad, const at::Tensor& gate,
                                                   const at::Tensor& up) {
  check_like("swiglu", "up", up, gate.sizes());
  check_like("swiglu", "grad", grad, gate.sizes());
  const at::Tensor g = wide(gate), y = wide(grad.to(gate.scalar_type())), s = at::sigmoid(g);
  const at::Tensor slope = g.mul(s.neg().add_(1)).add_(1);
  return {y.mul(wide(up)).mul_(s).mul_(slope).to(gate.scalar_type()),
          y.mul(g.mul(s)).to(gate.scalar_type())};
}

at::Tensor linear_forward(const at::Tensor& x, const at::Tensor& weight,
                          const std::optional<at::Tensor>& bias) {
  const bool has_bias = bias.has_value() && bias->defined();
  return at::linear(wide(x), wide(weight), has_bias ? wide(*bias) : at::Tensor())
      .to(x.scalar_type());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> linear_backward(const at::Tensor& grad,
                                                               const at::Tensor& x,
                                                               const at::Tensor& weight,
                                                               bool x_wanted, bool weight_wanted,
                                                               bool bias_wanted) {
  check_like("linear", "grad", grad, {x.size(0), weight.size(0)});
  const at::Tensor dy = wide(grad);
  at::Tensor dx, dw, db;
  if (x_wanted) dx = at::mm(dy, wide(weight)).to(x.scalar_type());
  if (weight_wanted) dw = at::mm(dy.t(), wide(x)).to(x.scalar_type());
  if (bias_wanted) db = dy.sum(0).to(x.scalar_type());
  return {dx, dw, db};
}

}  // namespace xrun::kernels
