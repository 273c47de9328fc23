// mean of a metric = sum over micro-batches of sum_i w_i x_i / sum over micro-batches of sum_i w_i;
// the mean of a source takes the units i of that source. Sums stay on the device until one read at
// the end of the step, and are added in the order of the micro-batches, whichever rank had them.

#include "core/train/metric_sums.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "core/dist/rank_message.h"
#include "core/dist/ranks.h"
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

[[noreturn]] void throw_two_units(const std::string& name, Unit one, Unit other) {
  throw Error(
      fmt::format("the metric \"{}\" has one value per {} in one micro-batch and one per {} in "
                  "another; return it in one unit",
                  name, unit_name(one), unit_name(other)));
}

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
  if (candidates_.empty()) throw_two_units(name, before, units.front());
}

MetricSums::PendingAddition& MetricSums::add(Kind kind, int64_t term, const at::Tensor& value,
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
  made.sum = value.detach().to(at::kDouble).mul(device_weights).sum();
  return made;
}

// One row of weights per source: the values of other sources are masked, since 0 x NaN is NaN.
void MetricSums::add_sources(PendingAddition& to, const at::Tensor& value, Unit unit,
                             const MicroBatch& micro) {
  const std::vector<std::string>& names = micro.info().sources;
  if (names.empty()) return;
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
    PendingAddition& made = add(Kind::kSourceLoss, term, loss, micro.unit_weight(unit));
    made.host.unit = unit;
    made.host.term_weight = term_weight;
    add_sources(made, loss, unit, micro);
  }
}

void MetricSums::add_unit_losses(const ObjectiveResult& result, const MicroBatch& micro) {
  for (const auto& [unit, loss] : result.losses) {
    add(Kind::kUnitLoss, 0, loss, micro.unit_weight(unit)).host.unit = unit;
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
      made.host = {.kind = Kind::kPlain, .micro = micro_, .name = name, .weight = weight};
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
    units.narrow(name, value, first, micro);
    // Later micro-batches may rule units out, so every candidate is summed.
    for (const Unit unit : units.candidates()) {
      PendingAddition& made = add(Kind::kByUnit, term, value, micro.unit_weight(unit), weights);
      made.host.name = name;
      made.host.unit = unit;
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
      return (s == nullptr ? first : s) == scored.source;
    };
    if (std::none_of(sources.begin(), sources.end(), wanted)) continue;
    const at::Tensor own = weight.index_select(0, int64_tensor(scored.rows->segments));
    // By sequence weight: a log-prob of a row of weight 0 must not move the mean.
    add(Kind::kPlain, 0, scored.logprob, own).host.name = "logprob_" + scored.rows->name;
    add(Kind::kPlain, 0, scored.rows->length, own).host.name = "length_" + scored.rows->name;
  }
}

void MetricSums::add_loss(const at::Tensor& loss) {
  PendingAddition& made = additions_.emplace_back();
  made.host = {.kind = Kind::kLoss, .micro = micro_};
  made.sum = loss;
}

std::vector<MetricSums::Addition> MetricSums::on_host(const at::Tensor& extra,
                                                      double& extra_value) const {
  std::vector<at::Tensor> all;
  for (const PendingAddition& one : additions_) {
    all.push_back(one.sum);
    if (one.own_weight.defined()) all.push_back(one.own_weight);
    if (one.source_sums.defined()) all.push_back(one.source_sums);
  }
  if (extra.defined()) all.push_back(extra);
  std::vector<Addition> additions;
  if (all.empty()) return additions;
  const at::Tensor host = read_together(std::move(all));
  const double* value = host.const_data_ptr<double>();
  for (const PendingAddition& one : additions_) {
    Addition& made = additions.emplace_back(one.host);
    made.sum = *value++;
    if (one.own_weight.defined()) made.own_weight = *value++;
    if (!one.source_sums.defined()) continue;
    made.source_sums.assign(value, value + one.source_sums.numel());
    value += one.source_sums.numel();
  }
  if (extra.defined()) extra_value = *value;
  return additions;
}

std::string MetricSums::message(const std::vector<Addition>& additions,
                                const std::string& note) const {
  MessageWriter out;
  out.text(note).whole(std::ssize(sources_));
  for (const auto& [term, names] : sources_) {
    out.whole(term).whole(std::ssize(names));
    for (const std::string& name : names) out.text(name);
  }
  out.whole(std::ssize(additions));
  for (const Addition& one : additions) {
    out.whole(static_cast<int64_t>(one.kind)).whole(one.micro).whole(one.term).text(one.name);
    out.whole(static_cast<int64_t>(one.unit)).whole(one.preferred ? 1 : 0).real(one.term_weight);
    out.real(one.sum).real(one.weight).real(one.own_weight);
    out.list(one.source_sums).list(one.source_weights);
  }
  return out.take();
}

void MetricSums::read_message(const std::string& message, int64_t rank,
                              std::vector<Addition>& additions, SourceNames& sources,
                              std::vector<std::string>& notes) {
  MessageReader in(message);
  notes.emplace_back(in.text());
  for (int64_t terms = in.whole(); terms > 0; --terms) {
    std::vector<std::string>& names = sources[in.whole()];
    names.clear();
    for (int64_t count = in.whole(); count > 0; --count) names.emplace_back(in.text());
  }
  for (int64_t count = in.whole(); count > 0; --count) {
    Addition& one = additions.emplace_back();
    one.rank = rank;
    one.kind = static_cast<Kind>(in.whole());
    one.micro = in.whole();
    one.term = in.whole();
    one.name = in.text();
    one.unit = static_cast<Unit>(in.whole());
    one.preferred = in.whole() != 0;
    one.term_weight = in.real();
    one.sum = in.real();
    one.weight = in.real();
    one.own_weight = in.real();
    one.source_sums = in.list<double>();
    one.source_weights = in.list<double>();
  }
}

// The means of additions, which are in the order of the micro-batches.
class MetricSums::Means {
 public:
  Means(const std::vector<Addition>& additions, const SourceNames& sources) : sources_(sources) {
    for (const Addition& one : additions) enter(one);
  }

  void read(Read& out) const {
    double loss = 0;
    for (const Addition* one : losses_) {
      out.losses.push_back({one->sum, one->micro, one->rank});
      loss += one->sum;
    }
    for (const auto& [unit, own] : unit_losses_) {
      double sum = 0, weight = 0;
      own.add_to(sum, weight);
      if (weight > 0) loss += sum / weight;
    }
    if (!losses_.empty() || !unit_losses_.empty()) out.metrics.emplace_back("loss", loss);
    read_source_losses(out.metrics);
    for (const Metric& metric : metrics_) read_metric(metric, out.metrics);
  }

 private:
  struct Sum {
    std::vector<const Addition*> additions;

    void add_to(double& sum, double& weight) const {
      double own = 0;
      for (const Addition* one : additions) {
        sum += one->sum;
        weight += one->own_weight;
        own += one->weight;
      }
      weight += own;
    }
    // (sum, weight) of each source; empty without sources.
    std::vector<std::pair<double, double>> by_source() const {
      std::vector<std::pair<double, double>> sums;
      for (const Addition* one : additions) {
        sums.resize(std::max(sums.size(), one->source_sums.size()));
        for (size_t s = 0; s < one->source_sums.size(); ++s) {
          sums[s].first += one->source_sums[s];
          sums[s].second += one->source_weights[s];
        }
      }
      return sums;
    }
  };
  // Sums as if the unit were each of those that some values have; all values have the right one.
  struct OfTerm {
    size_t values = 0;
    std::vector<std::pair<Unit, Sum>> by_unit = {};  // preferred ones first

    const Sum& chosen(const std::string& name) const {
      const auto found = std::find_if(by_unit.begin(), by_unit.end(), [&](const auto& one) {
        return one.second.additions.size() == values;
      });
      if (found == by_unit.end()) {
        throw_two_units(name, by_unit.front().first, by_unit.back().first);
      }
      return found->second;
    }
  };
  struct Metric {
    std::string name;
    Sum plain = {};  // of numbers, and of values whose weights are known
    std::map<int64_t, OfTerm> by_term = {};
  };
  struct SourceLoss {
    int64_t term;
    Unit unit;
    double term_weight;
    Sum sum = {};
  };

  template <typename List, typename Same, typename Make>
  static auto& find_or_make(List& list, const Same& same, const Make& make) {
    const auto known = std::find_if(list.begin(), list.end(), same);
    return known != list.end() ? *known : list.emplace_back(make());
  }

  void enter(const Addition& one) {
    switch (one.kind) {
      case Kind::kLoss: losses_.push_back(&one); return;
      case Kind::kUnitLoss:
        find_or_make(
            unit_losses_, [&](const auto& known) { return known.first == one.unit; },
            [&] { return std::pair(one.unit, Sum()); })
            .second.additions.push_back(&one);
        return;
      case Kind::kSourceLoss:
        find_or_make(
            source_losses_,
            [&](const SourceLoss& known) {
              return known.term == one.term && known.unit == one.unit;
            },
            [&] { return SourceLoss{one.term, one.unit, one.term_weight}; })
            .sum.additions.push_back(&one);
        return;
      case Kind::kPlain: metric(one.name).plain.additions.push_back(&one); return;
      case Kind::kByUnit: enter_by_unit(one);
    }
  }

  void enter_by_unit(const Addition& one) {
    OfTerm& of_term = metric(one.name).by_term[one.term];
    of_term.values += one.preferred ? 1 : 0;
    find_or_make(
        of_term.by_unit, [&](const auto& known) { return known.first == one.unit; },
        [&] { return std::pair(one.unit, Sum()); })
        .second.additions.push_back(&one);
  }

  Metric& metric(const std::string& name) {
    return find_or_make(
        metrics_, [&](const Metric& known) { return known.name == name; },
        [&] { return Metric{name}; });
  }

  void read_source_losses(Metrics& metrics) const {
    SourceMeans means;
    for (const SourceLoss& one : source_losses_) {
      const auto sums = one.sum.by_source();
      for (size_t s = 0; s < sums.size(); ++s) {
        // A source that this step did not draw has no mean, rather than 0.
        const auto& [sum, weight] = sums[s];
        if (weight > 0) means.add(sources_.at(one.term)[s], one.term_weight * sum / weight, 1);
      }
    }
    for (const auto& [name, mean] : means.by_name) metrics.emplace_back("loss/" + name, mean.first);
  }

  void read_metric(const Metric& metric, Metrics& metrics) const {
    double sum = 0, weight = 0;
    SourceMeans means;
    metric.plain.add_to(sum, weight);
    for (const auto& [term, of_term] : metric.by_term) {
      const Sum& chosen = of_term.chosen(metric.name);
      chosen.add_to(sum, weight);
      const auto sums = chosen.by_source();
      for (size_t s = 0; s < sums.size(); ++s) {
        means.add(sources_.at(term)[s], sums[s].first, sums[s].second);
      }
    }
    if (weight > 0) metrics.emplace_back(metric.name, sum / weight);
    for (const auto& [name, mean] : means.by_name) {
      if (mean.second > 0) metrics.emplace_back(metric.name + "/" + name, mean.first / mean.second);
    }
  }

  const SourceNames& sources_;
  std::vector<const Addition*> losses_;
  std::vector<std::pair<Unit, Sum>> unit_losses_;
  std::vector<SourceLoss> source_losses_;
  std::vector<Metric> metrics_;  // in the order first seen
};

MetricSums::Read MetricSums::read(const at::Tensor& extra, Ranks* ranks,
                                  const std::string& note) const {
  Read out;
  std::vector<Addition> additions = on_host(extra, out.extra);
  SourceNames sources = sources_;
  out.notes = {note};
  if (ranks != nullptr) {
    const std::vector<std::string> messages = ranks->gather("metrics", message(additions, note));
    additions.clear();
    out.notes.clear();
    for (size_t rank = 0; rank < messages.size(); ++rank) {
      read_message(messages[rank], static_cast<int64_t>(rank), additions, sources, out.notes);
    }
    // Stable: the additions of one micro-batch keep their order.
    std::stable_sort(additions.begin(), additions.end(),
                     [](const auto& a, const auto& b) { return a.micro < b.micro; });
  }
  Means(additions, sources).read(out);
  return out;
}

}  // namespace xrun
