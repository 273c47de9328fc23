// Draw i of the stream = (source s, draw d of s) by the mixture, then epoch d / rows and row
// order(d % rows) of the source: a pure function of (plan, i).

#include "core/data/packs/row_stream.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace xrun {

RowStream::RowStream(std::vector<Source> sources, MixtureStop stop, uint64_t seed, bool shuffle,
                     int64_t epochs)
    : RowStream(Plan{.sources = std::move(sources),
                     .stop = stop,
                     .stages = {},
                     .epochs = epochs,
                     .seed = seed,
                     .order = {.kind = shuffle ? RowOrder::Kind::kFull : RowOrder::Kind::kFile}}) {}

RowStream::RowStream(Plan plan) : plan_(std::move(plan)) {
  XRUN_CHECK(plan_.epochs >= 0, "epochs is {}, wanted at least 0", plan_.epochs);
  require_stages(plan_.stages, plan_.sources.size());
  active_ = find_active_sources();
  // One source needs none: draw i is its i-th row.
  if (active_.size() > 1) make_mixture();
  find_length();
}

std::vector<int32_t> RowStream::find_active_sources() const {
  std::vector<int32_t> active;
  for (int32_t s = 0; s < std::ssize(plan_.sources); ++s) {
    const Source& source = plan_.sources[static_cast<size_t>(s)];
    if (source.rows <= 0 || source.weight == 0) continue;
    require_weight_in_a_stage(s);
    active.push_back(s);
  }
  return active;
}

void RowStream::require_weight_in_a_stage(int32_t source) const {
  const auto gives_weight = [&](const MixtureStage& stage) {
    return stage.weights[static_cast<size_t>(source)] > 0;
  };
  XRUN_CHECK(
      plan_.stages.empty() || std::any_of(plan_.stages.begin(), plan_.stages.end(), gives_weight),
      "data[{}] has weight 0 in every stage of mixture.stages, so it is never drawn; give "
      "it a weight, or take it out of data",
      source + 1);
}

namespace {

// The weights of the active sources, 0 for the others: one without rows must not be drawn, whatever
// its weight.
std::vector<double> only_active(const std::vector<double>& weights,
                                const std::vector<int32_t>& active) {
  std::vector<double> out(weights.size(), 0);
  for (const int32_t s : active) out[static_cast<size_t>(s)] = weights[static_cast<size_t>(s)];
  return out;
}

}  // namespace

void RowStream::make_mixture() {
  const bool shuffle = plan_.order.kind != RowOrder::Kind::kFile;
  if (plan_.stages.empty()) {
    std::vector<double> weights;
    for (const Source& source : plan_.sources) weights.push_back(source.weight);
    mixture_.emplace(only_active(weights, active_), plan_.seed, shuffle, plan_.mixture_block);
    return;
  }
  for (size_t i = 0; i < plan_.stages.size(); ++i) {
    std::vector<double>& weights = plan_.stages[i].weights;
    weights = only_active(weights, active_);
    XRUN_CHECK(*std::max_element(weights.begin(), weights.end()) > 0,
               "mixture.stages[{}] gives weights above 0 only to sources without rows", i + 1);
  }
  mixture_.emplace(plan_.stages, plan_.step_rows, plan_.seed, shuffle, plan_.mixture_block);
}

// The bound keeps products and sums of row numbers within int64.
int64_t RowStream::rows_of_all_epochs(int32_t source) const {
  const int64_t rows = plan_.sources[static_cast<size_t>(source)].rows;
  XRUN_CHECK(plan_.epochs <= (int64_t{1} << 62) / rows,
             "epochs is {}, more than 2^62 rows of data[{}]", plan_.epochs, source + 1);
  return rows * plan_.epochs;
}

void RowStream::find_length() {
  if (active_.empty()) {
    length_ = 0;
  } else if (plan_.epochs == 0) {
    endless_reason_ = "epochs is 0";
  } else if (!mixture_) {
    length_ = rows_of_all_epochs(active_[0]);
  } else if (plan_.stop == MixtureStop::kRestart) {
    endless_reason_ = "mixture.stop is \"restart\"";
  } else {
    find_mixture_length();
  }
}

// kFirst: the least of the lengths at which a source has been drawn for all epochs; kAll: the
// greatest, and none if one source never gets there because a later stage gives it weight 0.
void RowStream::find_mixture_length() {
  const bool first = plan_.stop == MixtureStop::kFirst;
  std::vector<int64_t> lengths;
  for (const int32_t s : active_) {
    const int64_t wanted = rows_of_all_epochs(s);
    if (const std::optional<int64_t> length = mixture_->length_for(s, wanted)) {
      lengths.push_back(*length);
    } else if (!first) {
      endless_reason_ = fmt::format(
          "mixture.stop is \"all\", and data[{}] is never used up: its weight ends at 0 when {} "
          "of {} rows are drawn",
          s + 1, *mixture_->draws_of(s), wanted);
      return;
    }
  }
  if (lengths.empty()) return;
  const auto [least, greatest] = std::minmax_element(lengths.begin(), lengths.end());
  length_ = first ? *least : *greatest;
}

RowStream::DrawnRow RowStream::at(int64_t index) const {
  const Mixture::Draw draw = mixture_ ? (*mixture_)(index) : Mixture::Draw{active_[0], index};
  const int64_t rows = plan_.sources[static_cast<size_t>(draw.source)].rows;
  // Each source has epochs and orders of its own, so that another source's rows never move its own.
  const EpochOrder order(plan_.order, rows, plan_.seed, static_cast<uint64_t>(draw.draw / rows),
                         shuffle_of_rows(draw.source));
  return {draw.source, order(draw.draw % rows)};
}

}  // namespace xrun
