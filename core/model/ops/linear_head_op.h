#pragma once
// The forward and the backward of xrun::linear_head, which every device implements, and the checks
// of their arguments.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

#include "core/model/ops/op.h"

namespace xrun {

// Returns, in this order:
//   logprob              [R] or [R, M], as target
//   entropy              [R], or [0] if it is not wanted
//   lse                  [R]
//   top_logprob, top_id  [R, k]
//   x                    [R, D], the gathered rows
//   saved_rows           [n, V], the first n <= U rows that head_mb holds: logits, or softmax minus
//                        one-hot if wants_targets_alone
// All but top_id are float32. If wants_targets_alone, neighbouring rows of equal index share a row
// of lse, x and saved_rows on the CPU: these then have U <= R rows, else U = R.
using LinearHeadForward =
    std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>(
        const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& index,
        const at::Tensor& target, double temperature, int64_t columns, bool entropy, int64_t top_k,
        int64_t head_mb, bool lse);

// Returns dhidden [T, D] and dweight [V, D], undefined if not wanted.
//   grad, ids     [R, N], of the targets and of the top k side by side; [R] with `alone`
//   grad_lse      [R]
//   grad_entropy  [R], or [0] for none
//   alone         wants_targets_alone of the forward; grad_lse and grad_entropy are then ignored
using LinearHeadBackward = std::tuple<at::Tensor, at::Tensor>(
    const at::Tensor& grad, const at::Tensor& grad_lse, const at::Tensor& grad_entropy,
    const at::Tensor& weight, const at::Tensor& index, const at::Tensor& ids, const at::Tensor& lse,
    const at::Tensor& entropy, const at::Tensor& x, const at::Tensor& saved_rows,
    double temperature, int64_t columns, int64_t tokens, bool want_hidden, bool want_weight,
    bool alone);

// Returns true if a call asks only for the log-probability of one target per row, at temperature 1
// and over all columns of weight.
bool wants_targets_alone(const at::Tensor& weight, const at::Tensor& target, double temperature,
                         int64_t columns, bool entropy, int64_t top_k, bool lse);

// The arguments of a head. All tensors of a call are on the device of the weight.
struct HeadInputs {
  const at::Tensor& weight;  // [V, D] floating, neither of them 0
  const at::Tensor& index;   // [R] int64 below the number of hidden rows
  const at::Tensor& target;  // [R] or [R, M] int64 below `columns`
  int64_t columns = 0;       // 0: V
};

// Throws Error unless hidden is [T, D] floating and the inputs are as HeadInputs says. Ids are read
// on the CPU only, since reading them elsewhere would wait for the device.
void check_head_inputs(const HeadInputs& inputs, const at::Tensor& hidden);

// Throws Error for a temperature at which a row loses its precision, and for a top_k above the
// columns of `inputs`, which have passed check_head_inputs.
void check_head_options(const HeadInputs& inputs, double temperature, int64_t top_k = 0);

// Throws Error unless hidden [n, D] and weight [V, D] are floating, of one type and device.
void check_head_logits(const at::Tensor& hidden, const at::Tensor& weight);

// The other arguments of a backward: the gradient, and the tensors that the forward saved.
struct HeadSaved {
  const at::Tensor& grad;        // floating, sizes as target
  const at::Tensor& lse;         // [U <= R] float32
  const at::Tensor& x;           // [U, D] float32
  const at::Tensor& saved_rows;  // [n <= U, V] float32
};

// Throws Error unless the arguments of a backward on the CPU have the types and sizes above.
//   tokens  rows of the forward's hidden
void check_head_saved(const HeadInputs& inputs, const HeadSaved& saved, int64_t tokens);

// Returns 1 for ids [R], M for ids [R, M].
inline int64_t ids_per_row(const at::Tensor& ids) { return ids.dim() == 2 ? ids.size(1) : 1; }

}  // namespace xrun
