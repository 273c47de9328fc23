// loss = sum over units of w_i l_i / sum of w over the whole step, which is known before any
// forward: so micro-batches only add.

#include "core/train/weighted_loss.h"

#include <algorithm>
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

void check_finite(const ObjectiveResult& result, const MicroBatch& micro, int64_t term,
                  size_t micro_count) {
  for (const auto& [unit, loss] : result.losses) {
    const at::Tensor host = loss.detach().to(at::kCPU, at::kDouble).contiguous();
    const double* values = host.const_data_ptr<double>();
    std::vector<int64_t> rows;
    double bad = 0;
    for (int64_t i = 0; i < host.numel(); ++i) {
      if (std::isfinite(values[i])) continue;
      const int64_t row = micro.unit_row(unit, i);
      // The first value is reported; later ones often follow from it.
      if (rows.empty()) bad = values[i];
      if (rows.empty() || rows.back() != row) rows.push_back(row);
    }
    if (rows.empty()) continue;
    const size_t others = rows.size() - 1;
    const std::string more =
        others > 0 ? " and of " + counted(static_cast<int64_t>(others), "more row") : "";
    if (std::isnan(bad)) bad = std::fabs(bad);  // the sign of a NaN means nothing
    throw NonFiniteLoss(
        fmt::format("{}: the loss of this {}{} is {} (step {}, micro-batch {} of {})",
                    micro.row_name(rows.front()), unit_name(unit), more, bad, micro.info().step,
                    micro.index() + 1, micro_count),
        term, micro.index(), rows);
  }
}

}  // namespace xrun
