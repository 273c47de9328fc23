#pragma once
// The layers of a decoder as compositions of ATen's operations, for devices without kernels of our
// own. Nothing here names a device: results lie where the arguments do, and nothing waits for it.
// Values round where those of core/model round.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>

namespace xrun::kernels {

// weight * round(x * rstd), in the type of x, and rstd [rows] fp32 = 1 / sqrt(mean(x^2) + eps).
//   x [..., D], weight [D]
std::tuple<at::Tensor, at::Tensor> rms_norm_forward(const at::Tensor& x, const at::Tensor& weight,
                                                    double eps);
// dx in the type of x, dweight [D] fp32.
std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& grad, const at::Tensor& x,
                                                     const at::Tensor& weight,
                                                     const at::Tensor& rstd);

// Rotates the pairs (i, i + K/2) of x [T, H, K] by angles whose cos and sin are [T, K/2] fp32;
// `inverse` rotates back.
at::Tensor rope_rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                       bool inverse);

// round(silu(gate)) * up, and its gradients; all of one shape and type.
at::Tensor swiglu_forward(const at::Tensor& gate, const at::Tensor& up);
std::tuple<at::Tensor, at::Tensor> swiglu_backward(const at::Tensor& grad, const at::Tensor& gate,
                                                   const at::Tensor& up);

// x weight^T + bias with operands widened to fp32, rounded once to the type of x.
//   x [T, in], weight [out, in], bias [out]
at::Tensor linear_forward(const at::Tensor& x, const at::Tensor& weight,
                          const std::optional<at::Tensor>& bias);
// dx, dweight, dbias; what is not wanted comes undefined.
std::tuple<at::Tensor, at::Tensor, at::Tensor> linear_backward(const at::Tensor& grad,
                                                               const at::Tensor& x,
                                                               const at::Tensor& weight,
                                                               bool x_wanted, bool weight_wanted,
                                                               bool bias_wanted);

}  // namespace xrun::kernels
