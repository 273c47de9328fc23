// A step's packs are a pure function of (plan, step): batches, previews and checks all draw here.

#include "lua/bind/run/step_loop.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/strings.h"
#include "core/train/batches/data_batch.h"

namespace xrun {

namespace {

// A resume compares the set and the way in which a loop draws from it.
Json identity_of(const StepSource& source) {
  const DataSet& set = source.data->set;
  const StepPlan& plan = source.plan;
  Json identity(Json::Object{{"fingerprint", set.fingerprint()},
                             {"units", set.size()},
                             {"unit", set.unit_name()},
                             {"units_a_step", plan.units},
                             {"window", set.window_length()},
                             {"seed", static_cast<int64_t>(plan.seed)},
                             {"order", static_cast<int64_t>(plan.order.kind)},
                             {"block", plan.order.block},
                             {"window_blocks", plan.order.window}});
  if (!plan.changes.empty()) {
    Json changes = Json::array();
    for (const SizeChange& change : plan.changes) {
      changes.push_back(Json(Json::Object{{"step", change.step}, {"units", change.units}}));
    }
    identity.set("schedule", std::move(changes));
  }
  if (Json mixture = set.mixture_plan(plan); !mixture.is_null()) {
    identity.set("mixture", std::move(mixture));
  }
  // Last: the hash of all keys before it.
  identity.set("plan_hash", hash_hex(dump_json(identity, {.sort_keys = true})));
  return identity;
}

// Returns the number of a run's step within the loop.
int64_t step_within(const StepLoop& loop, int64_t step) {
  XRUN_CHECK(step >= loop.first_step && step < loop.first_step + loop.steps,
             "step {} is beyond the data: this loop has {}", step,
             loop.steps == 0 ? "no steps"
                             : fmt::format("steps {} to {}", loop.first_step,
                                           loop.first_step + loop.steps - 1));
  return step - loop.first_step;
}

}  // namespace

std::string changes_text(const StepPlan& plan, int64_t steps) {
  std::string text;
  for (const SizeChange& change : plan.changes) {
    if (change.step >= steps) break;
    text += fmt::format("{}{} from step {} on", text.empty() ? "" : ", ", count_text(change.units),
                        count_text(change.step));
  }
  return text;
}

std::string size_text(const StepPlan& plan, int64_t steps, const char* unit) {
  const std::string size = *unit != 0 ? counted(plan.units, unit) : count_text(plan.units);
  const std::string changes = changes_text(plan, steps);
  return changes.empty() ? size : size + ", " + changes;
}

double StepSource::epochs(int64_t steps) const {
  // The last step may go past the end of the data; the quotient would then be 1.02 instead of 1.
  if (plan.epochs > 0 && !data->set.has_quotas()) return static_cast<double>(plan.epochs);
  return static_cast<double>(plan.units_before(steps)) / static_cast<double>(data->set.size());
}

std::string StepSource::one_label_text() const {
  const DataSet& set = data->set;
  const std::optional<int8_t> label = set.only_label();
  if (!label) return "";
  const Ledger& ledger = set.ledger();
  const std::string from = ledger.sources.size() == 1 ? ledger.sources[0].name + ": " : "";
  return fmt::format(
      "{}all {} are labelled {}: KTO needs both good and bad ones; check the labels of the data",
      from, counted(set.size(), "answer"), *label != 0 ? "good" : "bad");
}

std::string StepSource::lone_answer_text(int64_t steps) const {
  if (data->set.kind() != RowKind::kFeedback || plan.most_units(steps) != 1) return "";
  return "a step has one answer, so KTO's baseline z stays 0: it is the mean over the answers of "
         "other prompts; raise the batch: --set batch.sequences=16";
}

std::string StepSource::lower_batch_text(int64_t steps) const {
  const DataSet& set = data->set;
  const int64_t window = set.window_length();
  const std::string unit = window > 0 ? "token" : set.unit_name();
  const int64_t most = window > 0 ? set.size() * window : set.size();  // in the unit of the batch
  const auto too_large = [&](const SizeChange& change) {
    return change.step < steps && change.units > set.size();
  };
  const bool later = std::any_of(plan.changes.begin(), plan.changes.end(), too_large);
  if (plan.units <= set.size() && later) {
    return "lower the sizes in batch.schedule to at most " + counted(most, unit);
  }
  return fmt::format("lower the batch to at most {}: --set batch.{}s={}{}",
                     window > 0 ? counted(most, unit) : count_text(most), unit, most,
                     later ? ", and the sizes in batch.schedule" : "");
}

PhasePlan StepLoop::phase_plan() const {
  PhasePlan plan;
  plan.steps = steps;
  plan.data = identity_of(sources.front());
  for (size_t i = 1; i < sources.size(); ++i) {
    plan.data.set(fmt::format("set {}", i + 1), identity_of(sources[i]));
  }
  return plan;
}

std::vector<PackedBatch> StepLoop::packs(int64_t step, size_t source) const {
  const StepSource& from = sources.at(source);
  const DataSet& set = from.data->set;
  // On demand: the packs of an epoch would hold the data in memory once more.
  return set.pack(set.step_units(from.plan, step_within(*this, step)),
                  pack_limits(max_tokens, fold));
}

BatchInfo StepLoop::batch_info(int64_t step, c10::Device device, const StepSource& source) const {
  BatchInfo info;
  info.fold = fold;
  info.step = step;
  info.phase_step = step_within(*this, step);
  info.total_steps = steps;
  info.seed = source.plan.seed;
  info.max_length = source.data->max_length;
  info.tokenizer = source.data->tokenizer();
  info.device = device;
  info.ranks = ranks;
  return info;
}

std::shared_ptr<Batch> StepLoop::make_batch(int64_t step, c10::Device device, size_t source) const {
  const StepSource& from = sources.at(source);
  const DataHandle& data = *from.data;
  return data_batch(data.set, *data.extra, data.set.step_units(from.plan, step_within(*this, step)),
                    max_tokens, batch_info(step, device, from));
}

}  // namespace xrun
