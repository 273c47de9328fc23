// Every term of a step that trains rollouts is watched; of several the metrics are those of the
// first, since a metric has one value a step.

#include "lua/bind/rollout_updates.h"

#include <algorithm>

#include "core/rollout/rollout_log.h"
#include "core/train/adamw.h"
#include "core/train/policy.h"
#include "lua/bind/rollouts.h"

namespace xrun {

namespace {

const Policy* policy_of(const AdamW& adamw) {
  for (const auto& trainable : adamw.trainables()) {
    if (const auto* policy = dynamic_cast<const Policy*>(trainable.get())) return policy;
  }
  return nullptr;
}

}  // namespace

WatchedRollouts::WatchedRollouts(std::vector<StepTerm>& terms, const AdamW& adamw) {
  const Policy* const policy = policy_of(adamw);
  if (policy == nullptr) return;
  for (StepTerm& term : terms) {
    const auto* rollouts = dynamic_cast<const Rollouts*>(term.batch);
    if (rollouts == nullptr) continue;
    updates_.push_back(std::make_unique<WatchedUpdate>(*rollouts, *policy));
    term.objective = updates_.back()->watch(std::move(term.objective));
  }
}

void WatchedRollouts::report(lua_State* L, Metrics& metrics) const {
  if (updates_.empty()) return;
  UpdateRecord outside;  // of a script
  BodyRollouts* const body = body_rollouts(L);
  updates_.front()->report(metrics, body == nullptr ? outside : body->updates);
}

}  // namespace xrun
