// The sums of a micro-batch, sum_i w_i x_i and sum_i w_i, stay on the device until one read at the
// end of the step: a read per micro-batch would wait for the device each time.

#include "core/train/metric_sums.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "core/dist/ranks.h"
#include "core/model/model.h"
#include "core/model/ops/device.h"
#include "core/train/batches/micro_batch.h"
#include "core/train/batches/unit.h"
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

}  // namespace

MetricSums::PendingAddition& MetricSums::add(MetricKind kind, int64_t term, const at::Tensor& value,
                                             const at::Tensor& unit_weights,
                                             const at::Tensor& own) {
  PendingAddition& made = additions_.emplace_back();
  made.host.kind = kind;
  made.host.micro = micro_;
  made.host.term = term;
  at::Tensor device_weights = on_device(unit_weights.to(at::kDouble), value.device());
  if (own.defined()) {
    // Their sum stays on the device until read(): no host sync inside a step.
    device_weights = device_weights.mul(own.detach().to(at::kDouble));
    made.own_weight = device_weights.sum();
  } else {
    made.host.weight = total_weight(unit_weights);
  }
  // sum_i w_i x_i, in fp64 on the value's device.
  made.sum = value.detach().to(at::kDouble).mul(device_weights).sum();
  return made;
}

// One row of weights per source: the values of other sources are masked, since 0 x NaN is NaN.
void MetricSums::add_sources(PendingAddition& to, const at::Tensor& value, Unit unit,
                             const MicroBatch& micro) {
  const std::vector<std::string>& names = micro.info().sources;
  if (names.empty()) return;
  // By term: two batches of one step may have different sources.
  sources_.try_emplace(to.host.term, names);
  const std::vector<int64_t> segments = micro.unit_segments(unit);
  const at::Tensor weights = micro.unit_weight(unit);
  const auto units = std::ssize(segments);
  const at::Tensor table = at::zeros({std::ssize(names), units}, at::kDouble);
  const float* weight = weights.const_data_ptr<float>();
  auto* cell = table.mutable_data_ptr<double>();
  to.host.source_weights.resize(names.size());
  for (int64_t i = 0; i < units; ++i) {
    const int64_t source =
        micro.pack().source[static_cast<size_t>(segments[static_cast<size_t>(i)])];
    // [sources, units] times [units]: one product for all sources, without a loop over them.
    cell[source * units + i] = weight[i];
    to.host.source_weights[static_cast<size_t>(source)] += weight[i];
  }
  const at::Tensor on = on_device(table, value.device());
  to.source_sums = on.mul(value.detach().to(at::kDouble)).masked_fill(on.eq(0), 0).sum(/*dim=*/1);
}

void MetricSums::add_source_losses(const ObjectiveResult& result, const MicroBatch& micro,
                                   int64_t term, double term_weight) {
  if (micro.info().sources.empty()) return;
  for (const auto& [unit, loss] : result.losses) {
    PendingAddition& made = add(MetricKind::kSourceLoss, term, loss, micro.unit_weight(unit));
    made.host.unit = unit;
    made.host.term_weight = term_weight;
    add_sources(made, loss, unit, micro);
  }
}

void MetricSums::add_unit_losses(const ObjectiveResult& result, const MicroBatch& micro) {
  for (const auto& [unit, loss] : result.losses) {
    add(MetricKind::kUnitLoss, 0, loss, micro.unit_weight(unit)).host.unit = unit;
  }
}

void MetricSums::add_metrics(const ObjectiveResult& result, const MicroBatch& micro, int64_t term) {
  const Unit first = result.losses.front().first;
  for (const auto& [name, value] : result.metrics) {
    XRUN_CHECK(value.defined(), "the metric \"{}\" is not a tensor", name);
    if (value.dim() == 0) {
      // A single number stands for the whole micro-batch, so it counts as much as its losses.
      const double weight = total_weight(micro.unit_weight(first));
      PendingAddition& made = additions_.emplace_back();
      made.host = {.kind = MetricKind::kPlain, .micro = micro_, .name = name, .weight = weight};
      made.sum = value.detach().to(at::kDouble).mul(weight);
      continue;
    }
    const auto given = result.metric_weights.find(name);
    const at::Tensor weights = given == result.metric_weights.end() ? at::Tensor() : given->second;
    if (weights.defined() && weights.sizes() != value.sizes()) {
      throw Error(
          fmt::format("the weights of the metric \"{}\" have shape [{}], wanted [{}] as its values",
                      name, fmt::join(weights.sizes(), ", "), fmt::join(value.sizes(), ", ")));
    }
    MetricUnit& units = units_[{name, term}];
    // A vector says its length alone; what fits in every micro-batch is its unit.
    units.narrow(name, value, first, micro);
    // Later micro-batches may rule units out, so every candidate is summed.
    for (const Unit unit : units.candidates()) {
      PendingAddition& made =
          add(MetricKind::kByUnit, term, value, micro.unit_weight(unit), weights);
      made.host.name = name;
      made.host.unit = unit;
      // The means take the preferred candidate that fits every micro-batch.
      made.host.preferred = unit == units.candidates().front();
      // A metric with separate weights is a mean over only some rows: no means by source.
      if (!weights.defined()) add_sources(made, value, unit, micro);
    }
  }
}

void MetricSums::add_scored(const MicroBatch& micro,
                            const std::vector<const LogprobSource*>& sources) {
  const at::Tensor weight = micro.unit_weight(Unit::kSequence);
  const LogprobSource* first = micro.scored().empty() ? nullptr : micro.scored().front().source;
  for (const MicroBatch::Scored& scored : micro.scored()) {
    const auto wanted = [&](const LogprobSource* s) {
      // Null stands for the source that the objective asked first, the policy.
      return (s == nullptr ? first : s) == scored.source;
    };
    if (std::none_of(sources.begin(), sources.end(), wanted)) continue;
    const at::Tensor own = weight.index_select(0, int64_tensor(scored.rows->segments));
    // By sequence weight: a log-prob of a row of weight 0 must not move the mean.
    add(MetricKind::kPlain, 0, scored.logprob, own).host.name = "logprob_" + scored.rows->name;
    add(MetricKind::kPlain, 0, scored.rows->length, own).host.name = "length_" + scored.rows->name;
  }
}

void MetricSums::add_loss(const at::Tensor& loss) {
  PendingAddition& made = additions_.emplace_back();
  made.host = {.kind = MetricKind::kLoss, .micro = micro_};
  made.sum = loss;
}

std::vector<MetricAddition> MetricSums::on_host(const at::Tensor& extra,
                                                double& extra_value) const {
  std::vector<at::Tensor> all;
  for (const PendingAddition& one : additions_) {
    all.push_back(one.sum);
    if (one.own_weight.defined()) all.push_back(one.own_weight);
    if (one.source_sums.defined()) all.push_back(one.source_sums);
  }
  // With the sums, so that a step waits for the device once.
  if (extra.defined()) all.push_back(extra);
  std::vector<MetricAddition> additions;
  if (all.empty()) return additions;
  const at::Tensor host = read_together(std::move(all));
  const double* value = host.const_data_ptr<double>();
  for (const PendingAddition& one : additions_) {
    // The numbers come back in the order in which they were pushed above.
    MetricAddition& made = additions.emplace_back(one.host);
    made.sum = *value++;
    if (one.own_weight.defined()) made.own_weight = *value++;
    if (!one.source_sums.defined()) continue;
    made.source_sums.assign(value, value + one.source_sums.numel());
    value += one.source_sums.numel();
  }
  if (extra.defined()) extra_value = *value;
  return additions;
}

MetricSums::ReadSums MetricSums::read(const at::Tensor& extra, Ranks* ranks,
                                      const std::string& note) const {
  ReadSums out;
  std::vector<MetricAddition> additions = on_host(extra, out.extra);
  MetricSources sources = sources_;
  out.notes = {note};
  if (ranks != nullptr) {
    const std::vector<std::string> messages =
        ranks->gather("metrics", metrics_message(additions, sources_, note));
    additions.clear();
    out.notes.clear();
    for (size_t rank = 0; rank < messages.size(); ++rank) {
      out.notes.push_back(
          read_metrics_message(messages[rank], static_cast<int64_t>(rank), additions, sources));
    }
    // Stable: the additions of one micro-batch keep their order.
    std::stable_sort(additions.begin(), additions.end(),
                     [](const auto& a, const auto& b) { return a.micro < b.micro; });
  }
  for (const MetricAddition& one : additions) {
    if (one.kind == MetricKind::kLoss) {
      out.losses.push_back({one.sum, one.micro, one.rank});
    }
  }
  out.metrics = metric_means(additions, sources);
  return out;
}

}  // namespace xrun
