#pragma once
// The rollouts of one loop body: their metrics, and their file in the run's folder.

#include <cstdint>
#include <filesystem>

#include "core/rollout/rollouts.h"
#include "core/train/step.h"

namespace xrun {

// Every rollout that a body sampled, also those that a filter or a failed reward left out.
struct BodyRollouts {
  RolloutList all;
  double sample_s = 0, reward_s = 0;
  int64_t failed_rewards = 0;
};

// Returns rollout/reward, reward_std (over rollouts), reward/<part>, length and length_max (tokens
// that were sampled), stopped (the share that did not reach its limit), with an environment turns
// (mean), truncated and aborted (shares), groups, zero_variance_groups
// (all rewards equal, or a single rollout), failed_rewards where there are some, and perf/sample_s
// and perf/reward_s. Rewards are left out where none was given.
Metrics rollout_metrics(const BodyRollouts& body);

// Writes `dir`/step_0000012.jsonl.zst, one object a rollout in the order of sampling:
//   {"row","group","sample","version","finish","text","ids","logprobs","reward","parts","trained"}
// and of conversations "environment_reward" and "turns", a list of
//   {"begin","end","text","finish","tool_calls","reply"}: its sampled tokens are ids[begin:end],
//   and logprobs has those of all turns, one after the other.
// Replaces a file of the same step, so that a repeated step leaves one. After a kill the file is
// absent or whole. Throws Error if it cannot be written.
void write_rollouts(const std::filesystem::path& dir, int64_t step, const BodyRollouts& body);

}  // namespace xrun
