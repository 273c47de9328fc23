// Every term of a step that trains rollouts is watched. The metrics are those of the first, since a
// metric has one value per step.

#include "core/rollout/watched_rollouts.h"

#include "core/train/adamw.h"
#include "core/train/models/policy.h"

namespace xrun {

namespace {

const Policy* trained_policy(const AdamW& adamw) {
  for (const LogprobSource* source : trained_sources(adamw)) {
    if (const auto* policy = dynamic_cast<const Policy*>(source)) return policy;
  }
  return nullptr;
}

}  // namespace

WatchedRollouts::WatchedRollouts(std::vector<StepTerm>& terms, const AdamW& adamw) {
  const Policy* const policy = trained_policy(adamw);
  if (policy == nullptr) return;
  for (StepTerm& term : terms) {
    const auto* rollouts = dynamic_cast<const Rollouts*>(term.batch);
    if (rollouts == nullptr) continue;
    updates_.push_back(std::make_unique<WatchedUpdate>(*rollouts, *policy));
    term.objective = updates_.back()->watch(std::move(term.objective));
  }
}

void WatchedRollouts::report(UpdateRecord& record, Metrics& metrics, Ranks* ranks) const {
  if (!empty()) updates_.front()->report(metrics, record, ranks);
}

}  // namespace xrun
