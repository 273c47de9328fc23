// Shapes: a loss of unit u is [number of u in the micro-batch].

#include "core/train/objective.h"

#include <fmt/ranges.h>

#include "core/base/strings.h"
#include "core/train/micro_batch.h"

namespace xrun {
namespace {

// True for the names that a step or an evaluation writes itself.
bool is_reserved(std::string_view name) {
  for (const char* own : {"loss", "grad_norm", "lr", "perf"}) {
    if (name == own) return true;
  }
  for (const char* view : {"chosen", "rejected", "all"}) {
    if (name == fmt::format("logprob_{}", view) || name == fmt::format("length_{}", view)) {
      return true;
    }
  }
  return name.starts_with("train/") || name.starts_with("valid/") || name.starts_with("loss/");
}

void check_metric_names(const ObjectiveResult& result) {
  for (const auto& [name, value] : result.metrics) {
    XRUN_CHECK(!is_reserved(name),
               "the metric \"{}\" has a name that the step itself writes; choose another name",
               name);
  }
}

}  // namespace

void check_result(const ObjectiveResult& result, const MicroBatch& micro) {
  check_metric_names(result);
  XRUN_CHECK(!result.losses.empty(),
             "the objective returned no loss; return a tensor with one loss per {}",
             unit_name(micro.unit()));
  const bool alone = result.losses.size() == 1;
  for (size_t i = 0; i < result.losses.size(); ++i) {
    const auto& [unit, loss] = result.losses[i];
    const std::string what =
        alone ? std::string("the loss") : fmt::format("the {} loss", unit_name(unit));
    for (size_t j = 0; j < i; ++j) {
      XRUN_CHECK(result.losses[j].first != unit, "the objective returned {} twice", what);
    }
    XRUN_CHECK(loss.defined(), "{} is not a tensor", what);
    const int64_t wanted = micro.unit_count(unit);
    const std::string per =
        fmt::format("(one per {} of this {})", unit_name(unit),
                    micro.info().evaluation ? "micro-batch of the evaluation" : "micro-batch");
    XRUN_CHECK(loss.dim() != 0,
               "{} is a single number, wanted {} {}; return it unreduced, the step takes the mean",
               what, counted(wanted, "element"), per);
    XRUN_CHECK(loss.dim() == 1, "{} has shape [{}], wanted [{}] {}", what,
               fmt::join(loss.sizes(), ", "), wanted, per);
    XRUN_CHECK(loss.numel() == wanted, "{} has {}, wanted {} {}", what,
               counted(loss.numel(), "element"), wanted, per);
    XRUN_CHECK(loss.is_floating_point(), "{} holds whole numbers, wanted a floating-point tensor",
               what);
  }
}

}  // namespace xrun
