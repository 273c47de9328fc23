#pragma once
// The rows of a mixture of experts: one for each token and expert of it, sorted by expert.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace xrun {

// Where the T k slots of a routing lie when sorted by expert and, within one, by token.
struct ExpertRows {
  std::vector<int64_t> begin;  // [E+1]; the rows of expert e are [begin[e], begin[e + 1])
  at::Tensor slot;             // [T k] int64, the slot t k + j of each row
  at::Tensor token;            // [T k] int64, the token of each row
  at::Tensor of_token;         // [T, k] int64, the rows of each token, rising
};

// Sorts the slots; a function of the index alone.
//   index  [T, k] int64; the caller checks that it lies in [0, experts)
ExpertRows expert_rows(const at::Tensor& index, int64_t experts);

// Returns the sum of each token's rows, by rising expert in fp32, [T, D] in the type of x.
//   x       [T k, D] fp32, bf16 or fp16, contiguous, by row
//   weight  [T k] by row, in the type of x; undefined: 1
at::Tensor sum_of_rows(const at::Tensor& x, const at::Tensor& weight, const ExpertRows& rows);

}  // namespace xrun
