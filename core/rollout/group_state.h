#pragma once
// A scored group of rollouts as JSON, for a checkpoint.

#include "core/base/json.h"
#include "core/rollout/rollouts.h"

namespace xrun {

// Requires a reward on each answer.
Json group_json(const RolloutList& group);
// The inverse; the answers share their prompt. Throws Error that names a missing or malformed
// member.
RolloutList group_from(const Json& json);

}  // namespace xrun
