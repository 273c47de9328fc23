// loss = sum over units of w_i l_i / sum of w over the whole step, which is known before any
// forward: so micro-batches only add.

#include "core/train/weighted_loss.h"

#include <cmath>
#include <iterator>

#include "core/base/strings.h"
#include "core/model/ops/device.h"
#include "core/train/batches/micro_batch.h"
#include "core/train/batches/unit.h"

namespace xrun {

double total_weight(const at::Tensor& weight) {
  const float* values = weight.const_data_ptr<float>();
  double sum = 0;
  // In double and in index order: fp32 weights of many rows lose digits, at::sum changes with
  // threads.
  for (int64_t i = 0; i < weight.numel(); ++i) sum += values[i];
  return sum;
}

std::vector<Unit> units_of(const MicroBatch& micro) {
  std::vector<Unit> units(std::begin(kUnits), std::end(kUnits));
  std::erase_if(units, [&](Unit unit) { return !micro.has_unit(unit); });
  return units;
}

void add_unit_weights(UnitTotals& totals, const MicroBatch& micro) {
  for (Unit unit : units_of(micro)) totals[unit] += total_weight(micro.unit_weight(unit));
}

WeightedLoss weighted_loss(const ObjectiveResult& result, const MicroBatch& micro,
                           const UnitTotals& totals, double term_weight) {
  WeightedLoss out;
  for (const auto& [unit, loss] : result.losses) {
    const double total = totals.at(unit);
    const double scale = total > 0 ? term_weight / total : 0.0;
    const at::Tensor weight =
        on_device(micro.unit_weight(unit).to(at::kDouble).mul_(scale), loss.device());
    // The gradient in the loss's own type; the reported value in double, from the same weights.
    const at::Tensor graph = loss.mul(weight.to(loss.scalar_type())).sum();
    const at::Tensor value = loss.detach().to(at::kDouble).mul(weight).sum();
    out.graph = out.graph.defined() ? out.graph.add(graph) : graph;
    out.value = out.value.defined() ? out.value.add(value) : value;
  }
  return out;
}

namespace {

// The values that are not finite: the first one, since later ones often follow from it, and the
// rows of all.
struct BadValues {
  double first = 0;
  std::vector<int64_t> rows;

  // "pairs.jsonl:17: the WHAT of this UNIT and of 2 more rows is nan"
  std::string text(const MicroBatch& micro, std::string_view what, Unit unit) const {
    const int64_t others = std::ssize(rows) - 1;
    return fmt::format("{}: the {} of this {}{} is {}", micro.row_name(rows.front()), what,
                       unit_name(unit), others > 0 ? " and of " + counted(others, "more row") : "",
                       std::isnan(first) ? std::fabs(first) : first);  // a NaN's sign says nothing
  }
};

BadValues bad_values(const at::Tensor& values, const MicroBatch& micro, Unit unit) {
  const at::Tensor host = values.detach().to(at::kCPU, at::kDouble).contiguous();
  const double* const value = host.const_data_ptr<double>();
  BadValues bad;
  for (int64_t i = 0; i < host.numel(); ++i) {
    if (std::isfinite(value[i])) continue;
    const int64_t row = micro.unit_row(unit, i);
    if (bad.rows.empty()) bad.first = value[i];
    if (bad.rows.empty() || bad.rows.back() != row) bad.rows.push_back(row);
  }
  return bad;
}

std::string micro_text(const MicroBatch& micro, size_t micro_count) {
  return fmt::format("(step {}, micro-batch {} of {})", micro.info().step, micro.index() + 1,
                     micro_count);
}

}  // namespace

void check_finite(const ObjectiveResult& result, const MicroBatch& micro, int64_t term,
                  size_t micro_count) {
  for (const auto& [unit, loss] : result.losses) {
    const BadValues bad = bad_values(loss, micro, unit);
    if (bad.rows.empty()) continue;
    throw NonFiniteLoss(bad.text(micro, "loss", unit) + " " + micro_text(micro, micro_count), term,
                        micro.index(), bad.rows);
  }
}

void check_finite(const std::vector<at::Tensor>& logprob_gradients, const MicroBatch& micro,
                  int64_t term, size_t micro_count) {
  for (const at::Tensor& gradient : logprob_gradients) {
    const BadValues bad = bad_values(gradient, micro, Unit::kToken);
    if (bad.rows.empty()) continue;
    throw NonFiniteLoss(
        fmt::format("{} although every loss is finite {}; look for a 0/0 in the objective's "
                    "gradient",
                    bad.text(micro, "gradient of the log-prob", Unit::kToken),
                    micro_text(micro, micro_count)),
        term, micro.index(), bad.rows);
  }
}

}  // namespace xrun
