// Draw i of the stream = (source s, draw d of s) by the mixture, then epoch d / rows and row
// order(d % rows) of the source: a pure function of (plan, i).

#include "core/data/packs/row_stream.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace xrun {

RowStream::RowStream(std::vector<StreamSource> sources, MixtureStop stop, uint64_t seed,
                     bool shuffle, int64_t epochs)
    : RowStream(Plan{.sources = std::move(sources),
                     .stop = stop,
                     .stages = {},
                     .epochs = epochs,
                     .seed = seed,
                     .order = {.kind = shuffle ? RowOrderKind::kFull : RowOrderKind::kFile}}) {}

RowStream::RowStream(Plan plan) : plan_(std::move(plan)) {
  XRUN_CHECK(plan_.epochs >= 0, "epochs is {}, wanted at least 0", plan_.epochs);
  require_stages(plan_.stages, plan_.sources.size());
  active_ = find_active_sources();
  find_quotas();
  // A single source needs no mixture: draw i is its i-th row.
  if (active_.size() > 1) make_mixture();
  find_length();
}

// Sources without rows or with weight 0 take no part and need no quota.
std::vector<int32_t> RowStream::find_active_sources() const {
  std::vector<int32_t> active;
  for (int32_t s = 0; s < std::ssize(plan_.sources); ++s) {
    const StreamSource& source = plan_.sources[static_cast<size_t>(s)];
    // Weight 0 takes a source out without changing the indices of others.
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

// Returns the weights with 0 for sources that are not active: one without rows must not be drawn,
// whatever its weight.
std::vector<double> only_active(const std::vector<double>& weights,
                                const std::vector<int32_t>& active) {
  std::vector<double> out(weights.size(), 0);
  for (const int32_t s : active) out[static_cast<size_t>(s)] = weights[static_cast<size_t>(s)];
  return out;
}

}  // namespace

void RowStream::find_quotas() {
  for (const int32_t s : active_) {
    StreamSource& source = plan_.sources[static_cast<size_t>(s)];
    if (source.quota_tokens > 0) source.quota = rows_with_tokens(s);
    XRUN_CHECK(source.quota != 0 && source.quota <= int64_t{1} << 62,
               "data[{}].quota is {} rows, wanted 1 to 2^62", s + 1, source.quota);
  }
  for (StreamSource& source : plan_.sources)
    source.tokens = nullptr;  // they may refer to a data set
}

// Returns the fewest rows whose tokens reach the quota: whole epochs, then row by row in the order
// of the last one.
int64_t RowStream::rows_with_tokens(int32_t source) const {
  const StreamSource& from = plan_.sources[static_cast<size_t>(source)];
  int64_t epoch_tokens = 0;
  for (int64_t row = 0; row < from.rows; ++row) epoch_tokens += from.tokens(row);
  XRUN_CHECK(epoch_tokens > 0, "data[{}].quota is in tokens, and its rows have none", source + 1);
  const int64_t epochs = (from.quota_tokens - 1) / epoch_tokens;
  XRUN_CHECK(epochs < (int64_t{1} << 62) / from.rows,
             "data[{}].quota is {} tokens, more than 2^62 rows", source + 1, from.quota_tokens);
  const EpochOrder order(plan_.order, from.rows, plan_.seed, static_cast<uint64_t>(epochs),
                         shuffle_of_rows(source));
  int64_t rows = epochs * from.rows;
  int64_t left = from.quota_tokens - epochs * epoch_tokens;
  for (int64_t i = 0; left > 0; ++i, ++rows) left -= from.tokens(order(i));
  return rows;
}

void RowStream::make_mixture() {
  MixturePlan plan;
  plan.step_rows = plan_.step_rows;
  plan.seed = plan_.seed;
  plan.shuffle = plan_.order.kind != RowOrderKind::kFile;
  plan.order = plan_.mixture_order;
  plan.block = plan_.mixture_block;
  plan.staged = !plan_.stages.empty();
  for (size_t i = 0; i < plan_.stages.size(); ++i) {
    std::vector<double>& weights = plan_.stages[i].weights;
    weights = only_active(weights, active_);
    XRUN_CHECK(*std::max_element(weights.begin(), weights.end()) > 0,
               "mixture.stages[{}] gives weights above 0 only to sources without rows", i + 1);
  }
  plan.stages = plan_.stages;
  if (!plan.staged) {
    std::vector<double> weights;
    for (const StreamSource& source : plan_.sources) weights.push_back(source.weight);
    plan.stages = {{0, only_active(weights, active_)}};
  }
  for (const StreamSource& source : plan_.sources) plan.quotas.push_back(source.quota);
  mixture_.emplace(plan);
}

bool RowStream::has_quota(int32_t source) const {
  return plan_.sources[static_cast<size_t>(source)].quota > 0;
}

bool RowStream::all_have_quotas() const {
  return std::all_of(active_.begin(), active_.end(), [&](int32_t s) { return has_quota(s); });
}

// Bounds row numbers, so that their products and sums stay within int64.
int64_t RowStream::wanted_rows(int32_t source) const {
  const StreamSource& from = plan_.sources[static_cast<size_t>(source)];
  if (has_quota(source)) return from.quota;
  XRUN_CHECK(plan_.epochs <= (int64_t{1} << 62) / from.rows,
             "epochs is {}, more than 2^62 rows of data[{}]", plan_.epochs, source + 1);
  return from.rows * plan_.epochs;
}

void RowStream::find_length() {
  if (active_.empty()) {
    length_ = 0;
  } else if (plan_.epochs == 0 && !all_have_quotas()) {
    endless_reason_ = "epochs is 0";
  } else if (!mixture_) {
    length_ = wanted_rows(active_[0]);
  } else if (plan_.stop == MixtureStop::kRestart && !all_have_quotas()) {
    endless_reason_ = "mixture.stop is \"restart\"";
  } else {
    find_mixture_length();
  }
}

// Each source has a length of the stream at which it has been drawn for all epochs or has met its
// quota, or none if a later stage gives it weight 0. kFirst takes the least of them, kAll the
// greatest, and no end if a source has none.
void RowStream::find_mixture_length() {
  const bool first = plan_.stop == MixtureStop::kFirst;
  std::vector<int64_t> lengths;
  for (const int32_t s : active_) {
    const int64_t wanted = wanted_rows(s);
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

// A pure function of the index, so resuming needs only the step.
RowStream::DrawnRow RowStream::at(int64_t index) const {
  const Mixture::Draw draw = mixture_ ? (*mixture_)(index) : Mixture::Draw{active_[0], index};
  const int64_t rows = plan_.sources[static_cast<size_t>(draw.source)].rows;
  // Each source has its own epochs and orders, so that no source moves the rows of another.
  const EpochOrder order(plan_.order, rows, plan_.seed, static_cast<uint64_t>(draw.draw / rows),
                         shuffle_of_rows(draw.source));
  return {draw.source, order(draw.draw % rows)};
}

Json RowStream::mixture_plan() const {
  const bool any_quota =
      std::any_of(active_.begin(), active_.end(), [&](int32_t s) { return has_quota(s); });
  if (plan_.sources.size() < 2 && !any_quota) return {};
  const auto numbers = [](const std::vector<double>& values) {
    Json list = Json::array();
    for (const double value : values) list.push_back(value);
    return list;
  };
  std::vector<double> weights;
  Json stages = Json::array(), quotas = Json::array();
  for (const StreamSource& source : plan_.sources) {
    weights.push_back(source.weight);
    quotas.push_back(source.quota > 0 ? Json(source.quota) : Json());
  }
  for (const MixtureStage& stage : plan_.stages) {
    stages.push_back(
        Json(Json::Object{{"start", stage.start}, {"weights", numbers(stage.weights)}}));
  }
  return Json(Json::Object{{"order", mixture_order_name(plan_.mixture_order)},
                           {"stop", mixture_stop_name(plan_.stop)},
                           {"weights", numbers(weights)},
                           {"stages", std::move(stages)},
                           {"quotas", std::move(quotas)}});
}

}  // namespace xrun
