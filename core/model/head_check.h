#pragma once
// What the ops of the vocabulary projection are given, checked before forward and backward.

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace xrun {

// What a head reads. `op` begins every message.
struct HeadInputs {
  const char* op;
  const at::Tensor& weight;  // [V, D] floating, neither of them 0
  const at::Tensor& index;   // [R] int64 below the number of hidden rows
  const at::Tensor& target;  // int64 below `columns`: [R], or [R, M] where several may be
  int64_t columns = 0;       // 0: V
  bool several = false;
};

// hidden [T, D] floating, and the rest as HeadInputs says. Throws Error.
void check_head_inputs(const HeadInputs& inputs, const at::Tensor& hidden);

// What a backward has from its forward.
struct HeadSaved {
  const at::Tensor& grad;  // floating, sizes as target
  const at::Tensor& lse;   // [R] float32
  const at::Tensor& x;     // [R, D] float32
  const at::Tensor& kept;  // [n <= R, V] float32
};

// The same of a backward, whose hidden had `tokens` rows. Throws Error.
void check_head_saved(const HeadInputs& inputs, const HeadSaved& saved, int64_t tokens);

}  // namespace xrun
