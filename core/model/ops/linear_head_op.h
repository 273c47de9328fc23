#pragma once
// The C++ signatures of the halves of xrun::linear_head, which every device gives.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

namespace xrun {

// (hidden, weight, index, target, temperature, columns, entropy, top_k, head_mb) to logprob as
// target, entropy [R] or [0], lse [R], top_logprob [R, k], top_id [R, k]; x [R, D], the gathered
// rows, and kept [n, V], logits.
using LinearHeadForward =
    std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>(
        const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& index,
        const at::Tensor& target, double temperature, int64_t columns, bool entropy, int64_t top_k,
        int64_t head_mb);

// grad and ids are [R, N], those of targets and of the top k side by side; grad_lse [R];
// grad_entropy [R], or [0] for none. Gives dhidden [T, D] and dweight [V, D], undefined if not
// wanted.
using LinearHeadBackward = std::tuple<at::Tensor, at::Tensor>(
    const at::Tensor& grad, const at::Tensor& grad_lse, const at::Tensor& grad_entropy,
    const at::Tensor& weight, const at::Tensor& index, const at::Tensor& ids, const at::Tensor& lse,
    const at::Tensor& entropy, const at::Tensor& x, const at::Tensor& kept, double temperature,
    int64_t columns, int64_t tokens, bool want_hidden, bool want_weight);

}  // namespace xrun
