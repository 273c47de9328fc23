#include "core/model/ops/head_check.h"

#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/model/ops/op_check.h"

namespace xrun {

namespace {

// Below the smallest a log-sum-exp would say nothing about its row but the largest logit.
constexpr double kMinTemperature = 1e-6, kMaxTemperature = 1e30;

int64_t known_columns(const HeadInputs& in) {
  return in.columns > 0 ? in.columns : in.weight.size(0);
}

void check_weight(const HeadInputs& in) {
  check_floating(in.op, "weight", in.weight, in.weight.device());
  XRUN_CHECK(in.weight.dim() == 2 && in.weight.numel() > 0,
             "{}: weight is [{}], wanted [V, D], neither of them 0", in.op,
             fmt::join(in.weight.sizes(), ", "));
  XRUN_CHECK(in.columns >= 0 && in.columns <= in.weight.size(0),
             "{}: columns is {}, wanted 1 to the {} rows of weight, or 0 for all of them", in.op,
             in.columns, in.weight.size(0));
}

void check_ids(const char* op, const at::Tensor& ids, int64_t bound, const char* name,
               const char* what) {
  const int64_t a_row = ids.dim() == 2 ? ids.size(1) : 1;
  const int64_t* id = ids.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < ids.numel(); ++i) {
    if (id[i] >= 0 && id[i] < bound) continue;
    const std::string at =
        ids.dim() == 2 ? fmt::format("{}, {}", i / a_row, i % a_row) : fmt::format("{}", i);
    throw Error(
        fmt::format("{}: {}[{}] is {}, outside the {} of {}", op, name, at, id[i], what, bound));
  }
}

void check_rows(const HeadInputs& in, int64_t tokens) {
  const at::Tensor &index = in.index, &target = in.target;
  const c10::Device device = in.weight.device();
  check_type(in.op, "index", index, at::kLong, device);
  check_type(in.op, "target", target, at::kLong, device);
  const bool shaped = target.dim() == 1 || (in.several && target.dim() == 2);
  XRUN_CHECK(index.dim() == 1 && shaped && index.size(0) == target.size(0),
             "{}: index is [{}], target is [{}]; wanted {} of the same length", in.op,
             fmt::join(index.sizes(), ", "), fmt::join(target.sizes(), ", "),
             in.several ? "a list, and a list or rows" : "two lists");
  if (!device.is_cpu()) return;
  check_ids(in.op, index.contiguous(), tokens, "index", "hidden rows, a number");
  check_ids(in.op, target.contiguous(), known_columns(in), "target", "vocabulary");
}

}  // namespace

void check_head_inputs(const HeadInputs& inputs, const at::Tensor& hidden) {
  check_weight(inputs);
  check_floating(inputs.op, "hidden", hidden, inputs.weight.device());
  XRUN_CHECK(hidden.dim() == 2 && hidden.size(1) == inputs.weight.size(1),
             "{}: hidden is [{}], weight is [{}]; wanted [T, D] and [V, D]", inputs.op,
             fmt::join(hidden.sizes(), ", "), fmt::join(inputs.weight.sizes(), ", "));
  check_rows(inputs, hidden.size(0));
}

void check_head_options(const HeadInputs& inputs, double temperature, int64_t top_k) {
  XRUN_CHECK(temperature >= kMinTemperature && temperature <= kMaxTemperature,
             "{}: temperature is {}, wanted a number from {} to {}", inputs.op, temperature,
             kMinTemperature, kMaxTemperature);
  XRUN_CHECK(top_k >= 0 && top_k <= known_columns(inputs),
             "{}: top_k is {}, wanted 0 to the {} columns", inputs.op, top_k,
             known_columns(inputs));
}

void check_head_saved(const HeadInputs& inputs, const HeadSaved& saved, int64_t tokens) {
  const char* const op = inputs.op;
  check_weight(inputs);
  check_rows(inputs, tokens);
  const int64_t rows = inputs.index.size(0), vocab = inputs.weight.size(0);
  check_floating(op, "grad", saved.grad);
  check_sizes(op, "grad", saved.grad, inputs.target.sizes());
  check_type(op, "lse", saved.lse, at::kFloat);
  check_sizes(op, "lse", saved.lse, {rows});
  check_type(op, "x", saved.x, at::kFloat);
  check_sizes(op, "x", saved.x, {rows, inputs.weight.size(1)});
  check_type(op, "kept", saved.kept, at::kFloat);
  XRUN_CHECK(saved.kept.dim() == 2 && saved.kept.size(0) <= rows && saved.kept.size(1) == vocab,
             "{}: kept is [{}], wanted at most {} rows of {}", op,
             fmt::join(saved.kept.sizes(), ", "), rows, vocab);
}

}  // namespace xrun
