// Lengths alone do not tell the unit of a tensor: a micro-batch of sequences of one token each has
// as many tokens as sequences. So the candidates are narrowed down over all micro-batches of a
// step.

#include "core/train/metric_unit.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/train/batches/micro_batch.h"
#include "core/train/weighted_loss.h"

namespace xrun {

[[noreturn]] void throw_two_units(const std::string& name, Unit one, Unit other) {
  throw Error(
      fmt::format("the metric \"{}\" has one value per {} in one micro-batch and one per {} in "
                  "another; return it in one unit",
                  name, unit_name(one), unit_name(other)));
}

void MetricUnit::narrow(const std::string& name, const at::Tensor& value, Unit first,
                        const MicroBatch& micro) {
  std::vector<Unit> units = units_of(micro);
  // If lengths agree (one token per sequence), the unit of the first loss is preferred.
  // Stable: the others keep the order of kUnits.
  std::stable_partition(units.begin(), units.end(), [&](Unit unit) { return unit == first; });
  std::vector<std::string> sizes;
  for (const Unit unit : units) {
    sizes.push_back(fmt::format("[{}] (one per {})", micro.unit_count(unit), unit_name(unit)));
  }
  std::erase_if(units, [&](Unit unit) {
    return value.dim() != 1 || value.numel() != micro.unit_count(unit);
  });
  XRUN_CHECK(!units.empty(), "the metric \"{}\" has shape [{}], wanted a single number or {}", name,
             fmt::join(value.sizes(), ", "), fmt::join(sizes, ", "));
  if (candidates_.empty()) {
    candidates_ = std::move(units);
    return;
  }
  // For the message: a unit that fitted until now.
  const Unit before = candidates_.front();
  std::erase_if(candidates_, [&](Unit unit) {
    return std::find(units.begin(), units.end(), unit) == units.end();
  });
  if (candidates_.empty()) throw_two_units(name, before, units.front());
}

}  // namespace xrun
