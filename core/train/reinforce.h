#pragma once
// REINFORCE on signed weights, with the sum of their absolute values as the denominator.

#include <ATen/core/Tensor.h>

namespace xrun {

class MicroBatch;

// Returns -sum_i w_i log p_i / sum_i |w_i|, a scalar with its graph; 0 if all weights are 0. A
// weight is advantage times mask (Williams 1992). A common factor of all weights cancels.
//   logprob        any shape, floating point
//   signed_weight  the same shape
// Throws Error if the shapes differ.
at::Tensor reinforce(const at::Tensor& logprob, const at::Tensor& signed_weight);

// Returns the loss for use inside an objective: one unreduced loss per trained token, [R], such
// that the step's mean over tokens is -sum w log p / sum |w| over the whole step, however it is
// packed and divided into micro-batches. The denominator must be known before the first forward, so
// the signed weights are data: a field that the recipe assigned to the batch, [R] or, for one
// weight per sequence, [n]. The weights of the rows multiply w.
//   logprob        [R] of the whole micro-batch
//   signed_weight  the field as the micro-batch's view returned it
// Throws Error unless logprob is [R] and signed_weight is an assigned field.
at::Tensor reinforce(MicroBatch& micro, const at::Tensor& logprob, const at::Tensor& signed_weight);

}  // namespace xrun
