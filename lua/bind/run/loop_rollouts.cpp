// A body's answers are one file, rollouts/step_0000012.jsonl.zst, in the order of prompts.

#include "lua/bind/run/loop_rollouts.h"

#include <optional>

#include "core/model/weights/hf_config.h"
#include "core/rollout/rollout_log.h"
#include "core/train/models/policy.h"
#include "lua/bind/rollout/body_rollouts.h"
#include "lua/bind/run/run_loop.h"
#include "lua/state/outside_error.h"

namespace xrun {

namespace {

// Counts of the loop's queues since it began; nothing if it has none.
std::optional<GroupCounts> queue_totals(const StepLoop& loop) {
  std::optional<GroupCounts> totals;
  for (const StepSource& source : loop.sources) {
    if (!source.queue) continue;
    if (!totals) totals.emplace();
    const GroupCounts& counts = source.queue->counts();
    totals->attempts += counts.attempts;
    totals->valid += counts.valid;
    totals->zero_variance += counts.zero_variance;
    totals->stale += counts.stale;
  }
  return totals;
}

}  // namespace

void check_prompts_fit(const StepLoop& loop, const StepSource& source) {
  if (!source.answers) return;
  const DataHandle& data = *source.data;
  for (const ExtraColumn& column : data.set.extra_columns()) check_column(column.name);
  check_room(data.set, {.max_tokens = source.answers->max_tokens,
                        .batch_tokens = loop.max_tokens,
                        .model_tokens = read_model_config(data.policy->dir()).max_length});
}

std::string describe_rollouts(const StepSource& source) {
  if (!source.answers) return "";
  return describe_answers(*source.answers, source.plan.units,
                          source.rollouts ? &source.rollouts->queue : nullptr);
}

void write_rollouts_after_error(RunLoop& run, int64_t step) {
  BodyRollouts* const rollouts = run.session().rollouts.get();
  if (rollouts == nullptr || rollouts->all.empty()) return;
  if (run.run().step() != step + 1 || !run.run().dir().writes()) return;
  settle_pass(run.run(), *rollouts);
  write_rollouts(run.run().dir().path() / "rollouts", step, *rollouts);
}

// Called before the body ends: a full disk then fails inside it, where the run's state can be
// saved.
void log_rollouts(RunLoop& run) {
  Session& session = run.session();
  std::shared_ptr<BodyRollouts>& rollouts = session.rollouts;
  if (rollouts == nullptr) return;
  settle_pass(run.run(), *rollouts);
  if (const StepLoop* const loop = run.open_loop()) {
    rollouts->totals = queue_totals(*loop);
    rollouts->batches = loop->batch_step + 1;
  }
  const Metrics metrics = rollout_metrics(*rollouts);
  run.run().log(metrics);
  run.report().log_rollouts(metrics, *rollouts);
  // The body trained the answers of an earlier one, whose file has them.
  if (rollouts->all.empty()) return rollouts.reset();
  run.run().write_out("the record of rollouts", [&] {
    outside_recipe(
        [&] { write_rollouts(run.run().dir().path() / "rollouts", run.run().step(), *rollouts); });
  });
  session.last_rollouts = std::move(rollouts);
}

}  // namespace xrun
