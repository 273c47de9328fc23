// mean of a metric = sum over micro-batches of sum_i w_i x_i / sum over micro-batches of sum_i w_i.

#include "core/train/metric_sums.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/stack.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/model/ops/device.h"
#include "core/train/micro_batch.h"
#include "core/train/unit.h"

namespace xrun {
namespace {

double total(const at::Tensor& weight) {
  const float* values = weight.const_data_ptr<float>();
  double sum = 0;
  for (int64_t i = 0; i < weight.numel(); ++i) sum += values[i];
  return sum;
}

// The units of this micro-batch.
std::vector<Unit> units_of(const MicroBatch& micro) {
  std::vector<Unit> units(std::begin(kUnits), std::end(kUnits));
  std::erase_if(units, [&](Unit unit) { return !micro.has_unit(unit); });
  return units;
}

// 0-dim values of several devices on the host, [n], by one read.
at::Tensor read_together(std::vector<at::Tensor> values) {
  c10::Device device = c10::kCPU;
  for (const at::Tensor& one : values) {
    if (!one.is_cpu()) device = one.device();
  }
  for (at::Tensor& one : values) one = on_device(one, device);
  return at::stack(values).to(at::kCPU);
}

double coefficient(double weight, double sum) { return sum > 0 ? weight / sum : 0.0; }

}  // namespace

void MetricUnit::narrow(const std::string& name, const at::Tensor& value, Unit first,
                        const MicroBatch& micro) {
  std::vector<Unit> units = units_of(micro);
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
  const Unit before = candidates_.front();
  std::erase_if(candidates_, [&](Unit unit) {
    return std::find(units.begin(), units.end(), unit) == units.end();
  });
  XRUN_CHECK(!candidates_.empty(),
             "the metric \"{}\" has one value per {} in one micro-batch and one per {} in another; "
             "return it in one unit",
             name, unit_name(before), unit_name(units.front()));
}

void add_unit_weights(UnitTotals& totals, const MicroBatch& micro) {
  for (Unit unit : units_of(micro)) totals[unit] += total(micro.unit_weight(unit));
}

MetricSums::Metric& MetricSums::metric(const std::string& name) {
  for (Metric& one : metrics_) {
    if (one.name == name) return one;
  }
  return metrics_.emplace_back(Metric{name});
}

void MetricSums::WeightedSum::add(const at::Tensor& value, const at::Tensor& unit_weights,
                                  const at::Tensor& own) {
  at::Tensor device_weights = on_device(unit_weights.to(at::kDouble), value.device());
  if (own.defined()) {
    // Their sum stays on the device until read(): no host sync inside a step.
    device_weights = device_weights.mul(own.detach().to(at::kDouble));
    weights.push_back(device_weights.sum());
  } else {
    weight += total(unit_weights);
  }
  sums.push_back(value.detach().to(at::kDouble).mul(device_weights).sum());
}

std::vector<const MetricSums::WeightedSum*> MetricSums::Metric::chosen() const {
  std::vector<const WeightedSum*> sums = {&plain};
  for (const auto& [term, own] : by_term) {
    sums.push_back(&own.by_unit.at(own.unit.candidates().front()));
  }
  return sums;
}

void MetricSums::add_metrics(const ObjectiveResult& result, const MicroBatch& micro, int64_t term) {
  const Unit first = result.losses.front().first;
  for (const auto& [name, value] : result.metrics) {
    XRUN_CHECK(value.defined(), "the metric \"{}\" is not a tensor", name);
    Metric& own = metric(name);
    if (value.dim() == 0) {
      const double weight = total(micro.unit_weight(first));
      own.plain.sums.push_back(value.detach().to(at::kDouble).mul(weight));
      own.plain.weight += weight;
      continue;
    }
    const auto given = result.metric_weights.find(name);
    const at::Tensor weights = given == result.metric_weights.end() ? at::Tensor() : given->second;
    if (weights.defined() && weights.sizes() != value.sizes()) {
      throw Error(
          fmt::format("the weights of the metric \"{}\" have shape [{}], wanted [{}] as its values",
                      name, fmt::join(weights.sizes(), ", "), fmt::join(value.sizes(), ", ")));
    }
    Metric::OfTerm& of_term = own.by_term[term];
    of_term.unit.narrow(name, value, first, micro);
    for (const Unit unit : of_term.unit.candidates()) {
      of_term.by_unit[unit].add(value, micro.unit_weight(unit), weights);
    }
  }
}

void MetricSums::add_scored(const MicroBatch& micro,
                            const std::vector<const LogprobSource*>& sources) {
  const at::Tensor weight = micro.unit_weight(Unit::kSequence);
  const LogprobSource* first = micro.scored().empty() ? nullptr : micro.scored().front().source;
  for (const MicroBatch::Scored& scored : micro.scored()) {
    const auto wanted = [&](const LogprobSource* s) {
      return (s == nullptr ? first : s) == scored.source;
    };
    if (std::none_of(sources.begin(), sources.end(), wanted)) continue;
    const at::Tensor own = weight.index_select(0, ids(scored.rows->segments));
    metric("logprob_" + scored.rows->name).plain.add(scored.logprob, own);
    metric("length_" + scored.rows->name).plain.add(scored.rows->length, own);
  }
}

void MetricSums::add_loss(const at::Tensor& loss) { losses_.push_back(loss); }

MetricSums::Read MetricSums::read(Ranks* ranks, const at::Tensor& extra) const {
  std::vector<at::Tensor> all = losses_;
  for (const Metric& one : metrics_) {
    for (const WeightedSum* sum : one.chosen()) {
      all.insert(all.end(), sum->sums.begin(), sum->sums.end());
      all.insert(all.end(), sum->weights.begin(), sum->weights.end());
    }
  }
  if (extra.defined()) all.push_back(extra);
  Read out;
  if (all.empty()) return out;
  const at::Tensor host = read_together(std::move(all));
  const double* value = host.const_data_ptr<double>();
  // One list of sums and weights, so that ranks exchange a single message.
  std::vector<double> sums(1, 0.0);
  for (size_t i = 0; i < losses_.size(); ++i) {
    out.losses.push_back(*value);
    sums[0] += *value++;
  }
  for (const Metric& one : metrics_) {
    double sum = 0, weight = 0;
    for (const WeightedSum* given : one.chosen()) {
      for (size_t i = 0; i < given->sums.size(); ++i) sum += *value++;
      for (size_t i = 0; i < given->weights.size(); ++i) weight += *value++;
      weight += given->weight;
    }
    sums.push_back(sum);
    sums.push_back(weight);
  }
  if (extra.defined()) out.extra = *value;
  if (ranks != nullptr) ranks->sum(sums);
  if (!losses_.empty()) out.metrics.emplace_back("loss", sums[0]);
  for (size_t i = 0; i < metrics_.size(); ++i) {
    const double weight = sums[2 + 2 * i];
    if (weight > 0) out.metrics.emplace_back(metrics_[i].name, sums[1 + 2 * i] / weight);
  }
  return out;
}

WeightedLoss weighted_loss(const ObjectiveResult& result, const MicroBatch& micro,
                           const UnitTotals& totals, double term_weight) {
  WeightedLoss out;
  for (const auto& [unit, loss] : result.losses) {
    const double scale = coefficient(term_weight, totals.at(unit));
    const at::Tensor weight =
        on_device(micro.unit_weight(unit).to(at::kDouble).mul_(scale), loss.device());
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
      if (rows.empty()) bad = values[i];
      if (rows.empty() || rows.back() != row) rows.push_back(row);
    }
    if (rows.empty()) continue;
    const size_t others = rows.size() - 1;
    const std::string more =
        others > 0 ? fmt::format(" and of {} more row{}", others, others == 1 ? "" : "s") : "";
    if (std::isnan(bad)) bad = std::fabs(bad);  // the sign of a NaN means nothing
    throw NonFiniteLoss(
        fmt::format("{}: the loss of this {}{} is {} (step {}, micro-batch {} of {})",
                    micro.row_name(rows.front()), unit_name(unit), more, bad, micro.info().step,
                    micro.index() + 1, micro_count),
        term, micro.index(), rows);
  }
}

}  // namespace xrun
