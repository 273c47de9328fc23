// Shapes: a loss of unit u is [number of u in the micro-batch].

#include "core/train/objective.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/strings.h"
#include "core/train/batches/micro_batch.h"

namespace xrun {
namespace {

// True for a batch of sampled answers (core/rollout), whose log-probs the sampler reported.
bool is_sampled(const MicroBatch& micro) {
  const std::vector<std::string> fields = micro.field_names();
  return std::find(fields.begin(), fields.end(), "sampler_logprob") != fields.end();
}

// True for the names that a step, a body or an evaluation writes itself: one of two metrics of one
// name would be lost.
bool is_reserved(std::string_view name, const MicroBatch& micro) {
  for (const char* own : {"loss", "grad_norm", "lr", "perf", "skipped", "updates"}) {
    if (name == own) return true;
  }
  // Updates that train rollouts write these (WatchedUpdate::report).
  for (const char* own :
       {"ratio_mean", "ratio_max", "path_on_policy", "path_clipped", "path_corrected"}) {
    if (name == own) return is_sampled(micro);
  }
  for (const char* view : {"chosen", "rejected", "all"}) {
    if (name == fmt::format("logprob_{}", view) || name == fmt::format("length_{}", view)) {
      return true;
    }
  }
  for (const char* topic : {"train/", "valid/", "loss/", "rollout/"}) {
    if (name.starts_with(topic)) return true;
  }
  return false;
}

void check_metric_names(const ObjectiveResult& result, const MicroBatch& micro) {
  for (const auto& [name, value] : result.metrics) {
    XRUN_CHECK(!is_reserved(name, micro),
               "the metric \"{}\" has a name that the step itself writes; choose another name",
               name);
  }
}

// Names the unit of which a micro-batch has `count`: "pair", "trained token of the chosen side"; ""
// if there is none. Sets `by_token`.
std::string counted_unit_name(int64_t count, MicroBatch& micro, bool& by_token) {
  const bool pairs = micro.pair_count() > 0;
  by_token = false;
  if (pairs && count == micro.pair_count()) return "pair";
  if (count == micro.segment_count()) return "sequence";
  by_token = true;
  if (count == micro.row_count()) return "trained token";
  if (pairs && count == micro.chosen().row_count()) return "trained token of the chosen side";
  if (pairs && count == micro.rejected().row_count()) return "trained token of the rejected side";
  return "";
}

// The fix for a loss of the tokens of one side, where all tokens of the pairs are wanted; or "".
std::string side_hint(int64_t count, MicroBatch& micro) {
  if (micro.pair_count() == 0) return "";
  const bool chosen = count == micro.chosen().row_count();
  if (!chosen && count != micro.rejected().row_count()) return "";
  const char* const side = chosen ? "chosen" : "rejected";
  return fmt::format(
      "{} is one per trained token of the {} side; use p.all, or add it per pair: loss + w * "
      "p.{}:mean(x)",
      count_text(count), side, side);
}

// The fix for a plain return of xrun.kd on aligned data, and for values per token.
std::string unit_hint(const at::Tensor& loss, Unit unit, MicroBatch& micro) {
  const bool per_chunk = micro.info().aligned && loss.numel() == micro.unit_count(Unit::kChunk);
  if (per_chunk) return "; for one per chunk return { chunk = loss }";
  std::string hint = unit == Unit::kToken ? side_hint(loss.numel(), micro) : "";
  if (hint.empty()) hint = unit_mismatch_hint(loss.numel(), micro.unit_count(unit), micro);
  return hint.empty() ? "" : "\nhint: " + hint;
}

}  // namespace

std::string unit_mismatch_hint(int64_t a, int64_t b, MicroBatch& micro) {
  bool a_by_token = false, b_by_token = false;
  const std::string unit_a = counted_unit_name(a, micro, a_by_token);
  const std::string unit_b = counted_unit_name(b, micro, b_by_token);
  if (unit_a.empty() || unit_b.empty() || a_by_token == b_by_token) return "";
  return fmt::format(
      "{} is one per {}, {} one per {}; view:sum(x) turns values per token into values per "
      "sequence, view:spread(x) does the reverse",
      count_text(a), unit_a, count_text(b), unit_b);
}

void check_result(const ObjectiveResult& result, MicroBatch& micro) {
  check_metric_names(result, micro);
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
    XRUN_CHECK(loss.numel() == wanted, "{} has {}, wanted {} {}{}", what,
               counted(loss.numel(), "element"), wanted, per, unit_hint(loss, unit, micro));
    XRUN_CHECK(loss.is_floating_point(), "{} holds whole numbers, wanted a floating-point tensor",
               what);
  }
}

}  // namespace xrun
