// mean of a metric = sum over micro-batches of sum_i w_i x_i / sum over micro-batches of sum_i w_i;
// the mean of a source takes the units i of that source. Sums stay on the device until one read at
// the end of the step.

#include "core/train/metric_sums.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/model/model.h"
#include "core/model/ops/device.h"
#include "core/train/micro_batch.h"
#include "core/train/unit.h"
#include "core/train/weighted_loss.h"

namespace xrun {
namespace {

// Values of several devices on the host, end to end, by one read.
at::Tensor read_together(std::vector<at::Tensor> values) {
  c10::Device device = c10::kCPU;
  for (const at::Tensor& value : values) {
    if (!value.is_cpu()) device = value.device();
  }
  // A copy to the device does not wait; the one copy back does.
  for (at::Tensor& value : values) value = on_device(value, device).reshape({-1});
  return at::cat(values).to(at::kCPU);
}

// (sum, weight) by the name of a source, in the order of the data.
struct SourceMeans {
  std::vector<std::pair<std::string, std::pair<double, double>>> by_name;

  void add(const std::string& name, double sum, double weight) {
    for (auto& [known, mean] : by_name) {
      if (known != name) continue;
      mean.first += sum;
      mean.second += weight;
      return;
    }
    by_name.push_back({name, {sum, weight}});
  }
};

}  // namespace

void MetricUnit::narrow(const std::string& name, const at::Tensor& value, Unit first,
                        const MicroBatch& micro) {
  std::vector<Unit> units = units_of(micro);
  // If lengths agree (one token a sequence), the unit of the first loss is preferred.
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
  // For the message: the last unit that still fitted.
  const Unit before = candidates_.front();
  std::erase_if(candidates_, [&](Unit unit) {
    return std::find(units.begin(), units.end(), unit) == units.end();
  });
  XRUN_CHECK(!candidates_.empty(),
             "the metric \"{}\" has one value per {} in one micro-batch and one per {} in another; "
             "return it in one unit",
             name, unit_name(before), unit_name(units.front()));
}

MetricSums::Metric& MetricSums::metric(const std::string& name) {
  for (Metric& metric : metrics_) {
    if (metric.name == name) return metric;
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
    weight += total_weight(unit_weights);
  }
  sums.push_back(value.detach().to(at::kDouble).mul(device_weights).sum());
}

// One row of weights per source: the values of other sources are masked, since 0 x NaN is NaN.
void MetricSums::WeightedSum::add_by_source(const at::Tensor& value, const at::Tensor& weights,
                                            const std::vector<int64_t>& source, size_t sources) {
  const auto units = std::ssize(source);
  const at::Tensor table = at::zeros({static_cast<int64_t>(sources), units}, at::kDouble);
  const float* weight = weights.const_data_ptr<float>();
  auto* cell = table.mutable_data_ptr<double>();
  source_weights.resize(sources);
  for (int64_t i = 0; i < units; ++i) {
    const auto at = static_cast<size_t>(i);
    // [sources, units] times [units]: one product for all sources, without a loop over them.
    cell[source[at] * units + i] = weight[i];
    source_weights[static_cast<size_t>(source[at])] += weight[i];
  }
  const at::Tensor on = on_device(table, value.device());
  source_sums.push_back(
      on.mul(value.detach().to(at::kDouble)).masked_fill(on.eq(0), 0).sum(/*dim=*/1));
}

std::vector<std::pair<int64_t, const MetricSums::WeightedSum*>> MetricSums::Metric::chosen() const {
  std::vector<std::pair<int64_t, const WeightedSum*>> sums = {{0, &plain}};
  for (const auto& [term, own] : by_term) {
    sums.emplace_back(term, &own.by_unit.at(own.unit.candidates().front()));
  }
  return sums;
}

MetricSums::SourceLoss& MetricSums::source_loss(int64_t term, Unit unit, double term_weight) {
  for (SourceLoss& source : source_losses_) {
    if (source.term == term && source.unit == unit) return source;
  }
  return source_losses_.emplace_back(SourceLoss{term, unit, term_weight});
}

void MetricSums::add_by_source(WeightedSum& sum, const at::Tensor& value, Unit unit,
                               const MicroBatch& micro, int64_t term) {
  const std::vector<std::string>& names = micro.info().sources;
  if (names.empty()) return;
  sources_.try_emplace(term, names);
  std::vector<int64_t> source;
  for (const int64_t segment : micro.unit_segments(unit)) {
    source.push_back(micro.pack().source[static_cast<size_t>(segment)]);
  }
  sum.add_by_source(value, micro.unit_weight(unit), source, names.size());
}

void MetricSums::add_source_losses(const ObjectiveResult& result, const MicroBatch& micro,
                                   int64_t term, double term_weight) {
  if (micro.info().sources.empty()) return;
  for (const auto& [unit, loss] : result.losses) {
    add_by_source(source_loss(term, unit, term_weight).sum, loss, unit, micro, term);
  }
}

void MetricSums::add_metrics(const ObjectiveResult& result, const MicroBatch& micro, int64_t term) {
  const Unit first = result.losses.front().first;
  for (const auto& [name, value] : result.metrics) {
    XRUN_CHECK(value.defined(), "the metric \"{}\" is not a tensor", name);
    Metric& own = metric(name);
    if (value.dim() == 0) {
      // A single number stands for the whole micro-batch, so it counts as much as its losses.
      const double weight = total_weight(micro.unit_weight(first));
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
    // Later micro-batches may rule units out, so every candidate is summed.
    for (const Unit unit : of_term.unit.candidates()) {
      WeightedSum& sum = of_term.by_unit[unit];
      sum.add(value, micro.unit_weight(unit), weights);
      // A metric with separate weights is a mean over only some rows: no means by source.
      if (!weights.defined()) add_by_source(sum, value, unit, micro, term);
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
    const at::Tensor own = weight.index_select(0, int64_tensor(scored.rows->segments));
    // By sequence weight: a log-prob of a row of weight 0 must not move the mean.
    metric("logprob_" + scored.rows->name).plain.add(scored.logprob, own);
    metric("length_" + scored.rows->name).plain.add(scored.rows->length, own);
  }
}

void MetricSums::add_loss(const at::Tensor& loss) { losses_.push_back(loss); }

MetricSums::Read MetricSums::read(const at::Tensor& extra) const {
  std::vector<at::Tensor> all = losses_;
  const auto give = [&](const WeightedSum& sum) {
    all.insert(all.end(), sum.sums.begin(), sum.sums.end());
    all.insert(all.end(), sum.weights.begin(), sum.weights.end());
    all.insert(all.end(), sum.source_sums.begin(), sum.source_sums.end());
  };
  for (const SourceLoss& source : source_losses_) give(source.sum);
  for (const Metric& metric : metrics_) {
    for (const auto& [term, sum] : metric.chosen()) give(*sum);
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
  // Appends the sum and weight of each source.
  const auto take_sources = [&](const WeightedSum& of) {
    const size_t at = sums.size(), count = of.source_weights.size();
    for (const double weight : of.source_weights) sums.insert(sums.end(), {0.0, weight});
    for (size_t i = 0; i < of.source_sums.size() * count; ++i)
      sums[at + 2 * (i % count)] += *value++;
  };
  for (const SourceLoss& source : source_losses_) take_sources(source.sum);
  for (const Metric& metric : metrics_) {
    const size_t at = sums.size();
    sums.insert(sums.end(), 2, 0.0);
    for (const auto& [term, given] : metric.chosen()) {
      for (size_t i = 0; i < given->sums.size(); ++i) sums[at] += *value++;
      for (size_t i = 0; i < given->weights.size(); ++i) sums[at + 1] += *value++;
      sums[at + 1] += given->weight;
      take_sources(*given);
    }
  }
  if (extra.defined()) out.extra = *value;
  read_means(sums, out.metrics);
  return out;
}

// Reads `sums` in the order in which read() wrote them.
void MetricSums::read_means(const std::vector<double>& sums, Metrics& metrics) const {
  const double* next = sums.data();
  const double loss = *next++;
  if (!losses_.empty()) metrics.emplace_back("loss", loss);
  SourceMeans losses;
  for (const SourceLoss& one : source_losses_) {
    for (size_t s = 0; s < one.sum.source_weights.size(); ++s, next += 2) {
      // A source that this step did not draw has no mean, rather than 0.
      if (next[1] > 0) losses.add(sources_.at(one.term)[s], one.term_weight * next[0] / next[1], 1);
    }
  }
  for (const auto& [name, mean] : losses.by_name) metrics.emplace_back("loss/" + name, mean.first);
  for (const Metric& metric : metrics_) {
    const double sum = *next++, weight = *next++;
    if (weight > 0) metrics.emplace_back(metric.name, sum / weight);
    SourceMeans means;
    for (const auto& [term, given] : metric.chosen()) {
      for (size_t s = 0; s < given->source_weights.size(); ++s, next += 2) {
        means.add(sources_.at(term)[s], next[0], next[1]);
      }
    }
    for (const auto& [name, mean] : means.by_name) {
      if (mean.second > 0) metrics.emplace_back(metric.name + "/" + name, mean.first / mean.second);
    }
  }
}

}  // namespace xrun
