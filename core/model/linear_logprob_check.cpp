#include "core/model/linear_logprob_check.h"

#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/model/op_check.h"

namespace xrun {

namespace {

constexpr const char* kOp = "linear_logprob";

void check_weight(const at::Tensor& weight) {
  check_floating(kOp, "weight", weight);
  XRUN_CHECK(weight.dim() == 2 && weight.numel() > 0,
             "linear_logprob: weight is [{}], wanted [V, D], neither of them 0",
             fmt::join(weight.sizes(), ", "));
}

void check_ids(const at::Tensor& ids, int64_t bound, const char* name, const char* what) {
  const int64_t* id = ids.const_data_ptr<int64_t>();
  for (int64_t r = 0; r < ids.size(0); ++r) {
    XRUN_CHECK(id[r] >= 0 && id[r] < bound, "linear_logprob: {}[{}] is {}, outside the {} of {}",
               name, r, id[r], what, bound);
  }
}

// index [R] are hidden rows below `tokens`, target [R] ids below `vocab`.
void check_rows(const at::Tensor& index, const at::Tensor& target, int64_t tokens, int64_t vocab) {
  XRUN_CHECK(index.dim() == 1 && target.dim() == 1 && index.size(0) == target.size(0),
             "linear_logprob: index is [{}], target is [{}]; wanted two lists of the same length",
             fmt::join(index.sizes(), ", "), fmt::join(target.sizes(), ", "));
  check_type(kOp, "index", index, at::kLong);
  check_type(kOp, "target", target, at::kLong);
  check_ids(index.contiguous(), tokens, "index", "hidden rows, a number");
  check_ids(target.contiguous(), vocab, "target", "vocabulary");
}

}  // namespace

void check_head_inputs(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& index,
                       const at::Tensor& target) {
  check_weight(weight);
  check_floating(kOp, "hidden", hidden);
  XRUN_CHECK(hidden.dim() == 2 && hidden.size(1) == weight.size(1),
             "linear_logprob: hidden is [{}], weight is [{}]; wanted [T, D] and [V, D]",
             fmt::join(hidden.sizes(), ", "), fmt::join(weight.sizes(), ", "));
  check_rows(index, target, hidden.size(0), weight.size(0));
}

void check_head_saved(const HeadSaved& saved, const at::Tensor& weight, const at::Tensor& index,
                      const at::Tensor& target, int64_t tokens) {
  check_weight(weight);
  check_rows(index, target, tokens, weight.size(0));
  const int64_t rows = index.size(0);
  check_floating(kOp, "grad", saved.grad);
  check_sizes(kOp, "grad", saved.grad, {rows});
  check_type(kOp, "lse", saved.lse, at::kFloat);
  check_sizes(kOp, "lse", saved.lse, {rows});
  check_type(kOp, "x", saved.x, at::kFloat);
  check_sizes(kOp, "x", saved.x, {rows, weight.size(1)});
  check_type(kOp, "kept", saved.kept, at::kFloat);
  XRUN_CHECK(
      saved.kept.dim() == 2 && saved.kept.size(0) <= rows && saved.kept.size(1) == weight.size(0),
      "linear_logprob: kept is [{}], wanted at most {} rows of {}",
      fmt::join(saved.kept.sizes(), ", "), rows, weight.size(0));
}

}  // namespace xrun
