// mean of a metric = sum over micro-batches of sum_i w_i x_i / sum over micro-batches of sum_i w_i;
// the mean of a source takes the units i of that source. Sums are added in the order of the
// micro-batches, whichever rank had them, so that the means have the bits of one process.

#include "core/train/metric_means.h"

#include <algorithm>
#include <iterator>

#include "core/dist/rank_message.h"
#include "core/train/metric_unit.h"

namespace xrun {

std::string metrics_message(const std::vector<MetricAddition>& additions,
                            const MetricSources& sources, const std::string& note) {
  MessageWriter out;
  out.string(note).int64(std::ssize(sources));
  for (const auto& [term, names] : sources) {
    out.int64(term).int64(std::ssize(names));
    for (const std::string& name : names) out.string(name);
  }
  out.int64(std::ssize(additions));
  for (const MetricAddition& one : additions) {
    out.int64(static_cast<int64_t>(one.kind)).int64(one.micro).int64(one.term).string(one.name);
    out.int64(static_cast<int64_t>(one.unit)).int64(one.preferred ? 1 : 0).float64(one.term_weight);
    out.float64(one.sum).float64(one.weight).float64(one.own_weight);
    out.list(one.source_sums).list(one.source_weights);
  }
  return out.take();
}

std::string read_metrics_message(const std::string& message, int64_t rank,
                                 std::vector<MetricAddition>& additions, MetricSources& sources) {
  MessageReader in(message);
  std::string note(in.string());
  for (int64_t terms = in.int64(); terms > 0; --terms) {
    std::vector<std::string>& names = sources[in.int64()];
    // Every rank's message has the whole list of a term, so the last one replaces the others.
    names.clear();
    for (int64_t count = in.int64(); count > 0; --count) names.emplace_back(in.string());
  }
  for (int64_t count = in.int64(); count > 0; --count) {
    MetricAddition& one = additions.emplace_back();
    one.rank = rank;
    one.kind = static_cast<MetricKind>(in.int64());
    one.micro = in.int64();
    one.term = in.int64();
    one.name = in.string();
    one.unit = static_cast<Unit>(in.int64());
    one.preferred = in.int64() != 0;
    one.term_weight = in.float64();
    one.sum = in.float64();
    one.weight = in.float64();
    one.own_weight = in.float64();
    one.source_sums = in.list<double>();
    one.source_weights = in.list<double>();
  }
  return note;
}

namespace {

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

// Groups additions by loss, metric, term and unit, then reads the mean of each group.
class Means {
 public:
  Means(const std::vector<MetricAddition>& additions, const MetricSources& sources)
      : sources_(sources) {
    for (const MetricAddition& one : additions) enter(one);
  }

  Metrics read() const {
    Metrics metrics;
    double loss = 0;
    // These are divided by the global weight already; losses of units get their mean below.
    for (const MetricAddition* one : losses_) loss += one->sum;
    for (const auto& [unit, own] : unit_losses_) {
      double sum = 0, weight = 0;
      own.add_to(sum, weight);
      if (weight > 0) loss += sum / weight;
    }
    // Absent, not 0, where the step had no loss at all.
    if (!losses_.empty() || !unit_losses_.empty()) metrics.emplace_back("loss", loss);
    read_source_losses(metrics);
    for (const Metric& metric : metrics_) read_metric(metric, metrics);
    return metrics;
  }

 private:
  struct Sum {
    std::vector<const MetricAddition*> additions;

    void add_to(double& sum, double& weight) const {
      // The two kinds of weights are added up apart; the order of these additions is part of the
      // bits.
      double unit_weight = 0;
      for (const MetricAddition* one : additions) {
        sum += one->sum;
        weight += one->own_weight;
        unit_weight += one->weight;
      }
      weight += unit_weight;
    }
    // (sum, weight) of each source; empty without sources.
    std::vector<std::pair<double, double>> by_source() const {
      std::vector<std::pair<double, double>> sums;
      for (const MetricAddition* one : additions) {
        sums.resize(std::max(sums.size(), one->source_sums.size()));
        for (size_t s = 0; s < one->source_sums.size(); ++s) {
          sums[s].first += one->source_sums[s];
          sums[s].second += one->source_weights[s];
        }
      }
      return sums;
    }
  };
  // The values of a metric in one term: a sum for each unit that some value may have. The metric's
  // unit is one that all values may have.
  struct TermMeans {
    size_t values = 0;
    std::vector<std::pair<Unit, Sum>> by_unit = {};  // preferred ones first

    const Sum& chosen(const std::string& name) const {
      const auto found = std::find_if(by_unit.begin(), by_unit.end(), [&](const auto& one) {
        return one.second.additions.size() == values;
      });
      // No unit fits all values.
      if (found == by_unit.end()) {
        throw_two_units(name, by_unit.front().first, by_unit.back().first);
      }
      return found->second;
    }
  };
  struct Metric {
    std::string name;
    Sum plain = {};  // of numbers, and of values whose weights are known
    std::map<int64_t, TermMeans> by_term = {};
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

  void enter(const MetricAddition& one) {
    switch (one.kind) {
      case MetricKind::kLoss: losses_.push_back(&one); return;
      case MetricKind::kUnitLoss:
        find_or_make(
            unit_losses_, [&](const auto& known) { return known.first == one.unit; },
            [&] { return std::pair(one.unit, Sum()); })
            .second.additions.push_back(&one);
        return;
      case MetricKind::kSourceLoss:
        find_or_make(
            source_losses_,
            [&](const SourceLoss& known) {
              return known.term == one.term && known.unit == one.unit;
            },
            [&] {
              return SourceLoss{one.term, one.unit, one.term_weight};
            })
            .sum.additions.push_back(&one);
        return;
      case MetricKind::kPlain: metric(one.name).plain.additions.push_back(&one); return;
      case MetricKind::kByUnit: enter_by_unit(one);
    }
  }

  void enter_by_unit(const MetricAddition& one) {
    TermMeans& of_term = metric(one.name).by_term[one.term];
    // A value is entered once for each unit that its size fits, preferred once.
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
    // A metric whose weights are all 0 has no mean.
    if (weight > 0) metrics.emplace_back(metric.name, sum / weight);
    for (const auto& [name, mean] : means.by_name) {
      if (mean.second > 0) metrics.emplace_back(metric.name + "/" + name, mean.first / mean.second);
    }
  }

  const MetricSources& sources_;
  std::vector<const MetricAddition*> losses_;
  std::vector<std::pair<Unit, Sum>> unit_losses_;
  std::vector<SourceLoss> source_losses_;
  std::vector<Metric> metrics_;  // in the order first seen
};

}  // namespace

Metrics metric_means(const std::vector<MetricAddition>& additions, const MetricSources& sources) {
  return Means(additions, sources).read();
}

}  // namespace xrun
