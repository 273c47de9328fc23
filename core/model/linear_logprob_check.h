#pragma once
// What xrun::linear_logprob is given, checked before its forward and its backward.

#include <ATen/core/Tensor.h>

namespace xrun {

// hidden [T, D] and weight [V, D] of floating types, V and D above 0; index [R] int64 below T,
// target [R] int64 below V. Throws Error.
void check_head_inputs(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& index,
                       const at::Tensor& target);

// What a backward has from its forward.
struct HeadSaved {
  const at::Tensor& grad;  // [R] floating
  const at::Tensor& lse;   // [R] float32
  const at::Tensor& x;     // [R, D] float32
  const at::Tensor& kept;  // [n <= R, V] float32
};

// The same of a backward, whose hidden had `tokens` rows. Throws Error.
void check_head_saved(const HeadSaved& saved, const at::Tensor& weight, const at::Tensor& index,
                      const at::Tensor& target, int64_t tokens);

}  // namespace xrun
