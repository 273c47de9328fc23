#pragma once
// What the ops of the vocabulary projection are given, checked before forward and backward, on
// every device: all tensors of a call lie on that of the weight.

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

// hidden [T, D] floating, and the rest as HeadInputs says. Throws Error. Values of ids are read on
// the CPU alone, since reading them elsewhere would wait for the device.
void check_head_inputs(const HeadInputs& inputs, const at::Tensor& hidden);

// A temperature that a row survives, and a top_k of at most the columns of inputs, whose sizes are
// right. Throws Error.
void check_head_options(const HeadInputs& inputs, double temperature, int64_t top_k = 0);

// What a backward has from its forward.
struct HeadSaved {
  const at::Tensor& grad;  // floating, sizes as target
  const at::Tensor& lse;   // [R] float32
  const at::Tensor& x;     // [R, D] float32
  const at::Tensor& kept;  // [n <= R, V] float32
};

// The same of a backward on the CPU, whose hidden had `tokens` rows. Throws Error.
void check_head_saved(const HeadInputs& inputs, const HeadSaved& saved, int64_t tokens);

}  // namespace xrun
