#pragma once
// The vocabulary head in fp64 from plain torch operations, with gradients by autograd.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/sort.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/philox.h"
#include "core/model/ops/linear_head.h"
#include "tests/gradient_check.h"
#include "tests/tensor_difference.h"

namespace xrun {

// Returns every output, requested or not; top_* only for top_k > 0. target is [R] or [R, M].
inline HeadResult head_oracle(const at::Tensor& hidden, const at::Tensor& weight,
                              const at::Tensor& index, const at::Tensor& target,
                              const HeadOptions& options = {}) {
  const int64_t columns = options.columns > 0 ? options.columns : weight.size(0);
  const at::Tensor x = hidden.to(at::kDouble).index_select(0, index);
  const at::Tensor z =
      x.matmul(weight.to(at::kDouble).narrow(0, 0, columns).t()) / options.temperature;
  const at::Tensor logp = at::log_softmax(z, 1);
  HeadResult all;
  all.logprob =
      target.dim() == 2 ? logp.gather(1, target) : logp.gather(1, target.unsqueeze(1)).squeeze(1);
  all.entropy = -(logp.exp() * logp).sum(1);
  all.lse = at::logsumexp(z, 1);
  if (options.top_k > 0) {
    all.top_id = std::get<1>(at::sort(logp, /*stable=*/true, 1, /*descending=*/true))
                     .narrow(1, 0, options.top_k);
    all.top_logprob = logp.gather(1, all.top_id);
  }
  return all;
}

// R loss rows over T hidden states of width D, some repeated, with M targets each below `columns`
// of V; target is [R] for M = 0.
struct HeadProblem {
  at::Tensor hidden, weight, index, target;
};

inline HeadProblem head_problem(int64_t T, int64_t R, int64_t V, int64_t D, int64_t M = 0,
                                int64_t columns = 0) {
  const auto draw = [](std::vector<int64_t> sizes, uint64_t seed, int64_t below) {
    at::Tensor ids = at::empty(sizes, at::kLong);
    int64_t* const id = ids.mutable_data_ptr<int64_t>();
    for (int64_t i = 0; i < ids.numel(); ++i) {
      id[i] = static_cast<int64_t>(philox_u64(seed, 0, 0, static_cast<uint64_t>(i)) %
                                   static_cast<uint64_t>(below));
    }
    return ids;
  };
  return {random_tensor({T, D}, 1, 2.0), random_tensor({V, D}, 2), draw({R}, 4, T),
          draw(M > 0 ? std::vector<int64_t>{R, M} : std::vector<int64_t>{R}, 5,
               columns > 0 ? columns : V)};
}

// Expects that an output or a gradient is within a tolerance of docs/numerics.md, relative to the
// largest entry wanted, or to 1 if all are smaller.
inline void expect_close(const at::Tensor& got, const at::Tensor& want, double tolerance,
                         const std::string& what = "") {
  const double size = want.numel() == 0 ? 0 : want.abs().max().item<double>();
  EXPECT_LT(largest_difference(got, want), tolerance * std::max(1.0, size)) << what;
}

}  // namespace xrun
