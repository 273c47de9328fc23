// Rows of sine waves are computed all together and some of them again; a row must have the same
// bits, at widths with and without a vector tail.

#include "core/model/cost/row_probe.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sin.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/model/cost/measured_value.h"
#include "core/model/ops/activation.h"
#include "core/model/ops/linear.h"
#include "core/model/ops/linear_head.h"
#include "core/model/ops/moe_routing.h"
#include "core/model/ops/rms_norm.h"
#include "core/model/ops/swiglu.h"
#include "kernels/cpu/kernels.h"

namespace xrun {

namespace {

// More rows than the tile of any library that was measured: oneDNN changes its sums at up to 65
// rows on Zen 5 (docs/numerics.md).
constexpr int64_t kProbeRows = 70;

at::Tensor probe_rows(int64_t rows, int64_t width) {
  return at::arange(rows * width, at::kFloat).mul_(0.37).sin_().mul_(3).view({rows, width});
}

// All rows have the same target: a row's log-prob may depend on its own hidden state alone.
at::Tensor head_logprob(const at::Tensor& x) {
  const int64_t rows = x.size(0);
  return linear_head(x, probe_rows(50, x.size(1)), at::arange(rows, at::kLong),
                     at::ones({rows}, at::kLong), {})
      .logprob;
}

// One thread while it exists.
class OneThread {
 public:
  OneThread() { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(threads_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int threads_ = at::get_num_threads();
};

bool keeps_bits(const RowOperation& operation, int64_t width) {
  const at::Tensor x = probe_rows(kProbeRows, width), all = operation.apply(x);
  // The first, middle and last rows: a library may treat the rows after its last whole tile
  // differently.
  for (const int64_t n : {1, 2, 3, 7, 16, 33}) {
    for (const int64_t from : {int64_t{0}, (kProbeRows - n) / 2, kProbeRows - n}) {
      const at::Tensor some = operation.apply(x.narrow(0, from, n).clone());
      if (!some.equal(all.narrow(0, from, n))) return false;
    }
  }
  // The split over threads must not reach the bits either.
  const OneThread one_thread;
  return operation.apply(x).equal(all);
}

}  // namespace

std::vector<RowOperation> forward_row_operations() {
  using Rows = const at::Tensor&;
  const auto map = [](Rows x) {
    return linear(x, probe_rows(48, x.size(1)), probe_rows(1, 48)[0], GemmType::kStorage);
  };
  return {
      {"linear", map},
      {"linear_head", head_logprob},
      {"rms_norm", [](Rows x) { return rms_norm(x, at::ones({x.size(1)}), 1e-5); }},
      {"layer_norm", [](Rows x) { return at::layer_norm(x, {x.size(1)}); }},
      {"swiglu", [](Rows x) { return swiglu(x, x); }},
      {"silu", [](Rows x) { return xrun::silu(x); }},
      {"gelu", [](Rows x) { return xrun::gelu(x); }},
      {"gelu_tanh", [](Rows x) { return xrun::gelu_tanh(x); }},
      {"expert routing", [](Rows x) { return route(x, 2, /*renormalise=*/true).weight; }},
      {"cos", [](Rows x) { return at::cos(x); }},
      {"sin", [](Rows x) { return at::sin(x); }},
  };
}

std::vector<std::string> find_dependent_rows(const std::vector<RowOperation>& operations) {
  const at::NoGradGuard no_grad;
  std::vector<std::string> found;
  for (const RowOperation& operation : operations) {
    // Less than a vector, whole vectors, and two widths with a tail.
    for (const int64_t width : {6, 16, 100, 577}) {
      if (keeps_bits(operation, width)) continue;
      found.push_back(operation.name);
      break;
    }
  }
  return found;
}

std::string dependent_rows_notice(const std::vector<RowOperation>& operations) {
  const MeasuredValue stored("rows", "dependent",
                             Json(Json::Object{{"kernels", kernels::cpu_kernels().name}}));
  std::string names;
  bool known = false;
  try {
    if (const auto value = stored.read()) {
      names = value->as_string();
      known = true;
    }
  } catch (const Error&) {
    // Damaged: measured again below.
  }
  if (!known) {
    names = fmt::format("{}", fmt::join(find_dependent_rows(operations), ", "));
    stored.write(Json(names));
  }
  if (names.empty()) return "";
  return fmt::format(
      "on this machine the bits of a token depend on the tokens computed beside it ({}); log-probs "
      "of single, packed and folded sequences may differ in their last digits",
      names);
}

}  // namespace xrun
