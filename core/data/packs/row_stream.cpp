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
  const std::vector<int32_t> live = live_sources();
  if (live.size() > 1) make_mixture(live);
  if (live.size() == 1) only_ = live[0];
  find_length(live);
}

std::vector<int32_t> RowStream::live_sources() const {
  std::vector<int32_t> live;
  for (size_t s = 0; s < plan_.sources.size(); ++s) {
    if (plan_.sources[s].rows <= 0 || plan_.sources[s].weight == 0) continue;
    live.push_back(static_cast<int32_t>(s));
    const bool drawn = plan_.stages.empty() ||
                       std::any_of(plan_.stages.begin(), plan_.stages.end(),
                                   [&](const MixtureStage& stage) { return stage.weights[s] > 0; });
    XRUN_CHECK(drawn,
               "data[{}] has weight 0 in every stage of mixture.stages, so it is never drawn; give "
               "it a weight, or take it out of data",
               s + 1);
  }
  return live;
}

void RowStream::make_mixture(const std::vector<int32_t>& live) {
  // A source that is not live is never drawn, whatever its weight.
  const auto live_alone = [&](const auto& weight_of) {
    std::vector<double> weights(plan_.sources.size(), 0);
    for (const int32_t s : live)
      weights[static_cast<size_t>(s)] = weight_of(static_cast<size_t>(s));
    return weights;
  };
  const bool shuffle = plan_.order.kind != RowOrder::Kind::kFile;
  if (plan_.stages.empty()) {
    mixture_.emplace(live_alone([&](size_t s) { return plan_.sources[s].weight; }), plan_.seed,
                     shuffle, plan_.mixture_block);
    return;
  }
  for (size_t i = 0; i < plan_.stages.size(); ++i) {
    MixtureStage& stage = plan_.stages[i];
    stage.weights = live_alone([&](size_t s) { return stage.weights[s]; });
    XRUN_CHECK(*std::max_element(stage.weights.begin(), stage.weights.end()) > 0,
               "mixture.stages[{}] gives weights above 0 only to sources without rows", i + 1);
  }
  mixture_.emplace(plan_.stages, plan_.step_rows, plan_.seed, shuffle, plan_.mixture_block);
}

int64_t RowStream::rows_of_all_epochs(int32_t source) const {
  const int64_t rows = plan_.sources[static_cast<size_t>(source)].rows;
  XRUN_CHECK(plan_.epochs <= (int64_t{1} << 62) / rows,
             "epochs is {}, more than 2^62 rows of data[{}]", plan_.epochs, source + 1);
  return rows * plan_.epochs;
}

void RowStream::find_length(const std::vector<int32_t>& live) {
  if (live.empty()) {
    length_ = 0;
  } else if (plan_.epochs == 0) {
    why_endless_ = "epochs is 0";
  } else if (!mixture_) {
    length_ = rows_of_all_epochs(only_);
  } else if (plan_.stop == MixtureStop::kRestart) {
    why_endless_ = "mixture.stop is \"restart\"";
  } else {
    const bool first = plan_.stop == MixtureStop::kFirst;
    for (const int32_t s : live) {
      const int64_t wanted = rows_of_all_epochs(s);
      const std::optional<int64_t> end = mixture_->length_for(s, wanted);
      if (end) {
        length_ = !length_ ? *end : first ? std::min(*length_, *end) : std::max(*length_, *end);
      } else if (!first) {
        why_endless_ = fmt::format(
            "mixture.stop is \"all\", and data[{}] is never used up: its weight ends at 0 when {} "
            "of {} rows are drawn",
            s + 1, *mixture_->draws_of(s), wanted);
        length_.reset();
        return;
      }
    }
  }
}

RowStream::DrawnRow RowStream::at(int64_t index) const {
  const Mixture::Draw draw = mixture_ ? (*mixture_)(index) : Mixture::Draw{only_, index};
  const int64_t rows = plan_.sources[static_cast<size_t>(draw.source)].rows;
  const EpochOrder order(plan_.order, rows, plan_.seed, static_cast<uint64_t>(draw.draw / rows),
                         shuffle_of_rows(draw.source));
  return {draw.source, order(draw.draw % rows)};
}

}  // namespace xrun
