#pragma once
// The rollouts of one loop body: their metrics, and their file in the run's folder.

#include <cstdint>
#include <filesystem>
#include <optional>

#include "core/rollout/group_queue.h"
#include "core/rollout/rollouts.h"
#include "core/rollout/update_record.h"
#include "core/train/step.h"

namespace xrun {

// Every rollout that a body sampled, also those that a filter or a failed reward left out. Of a
// GroupQueue the groups that were taken in the body, and those left out in it: one that waits is
// recorded in the body that trains it.
struct BodyRollouts {
  RolloutList all;
  double sample_s = 0, reward_s = 0;
  int64_t failed_rewards = 0;
  std::optional<GroupCounts> counts = {};        // of a GroupQueue in this body
  int64_t waiting = 0;                           // groups that its queue holds after it
  UpdateRecord updates = {};                     // of the body so far
  std::optional<double> pass = {};               // an answer passes if its reward is above it
  bool pass_settled = false;                     // without `pass`: answers do not pass or fail
  int64_t drawn = 0, drafted = 0, accepted = 0;  // tokens (SamplerCounters)
};

// Returns the reward above which an answer passes: body.pass if it is given or settled, else 0 if
// every reward is 0 or 1, else nothing.
std::optional<double> pass_limit(const BodyRollouts& body);

// Returns rollout/reward, reward_std (over rollouts), reward/<part>, length and length_max (tokens
// that were sampled), stopped (the share that did not reach its limit), with an environment turns
// (mean), truncated and aborted (shares), groups, zero_variance_groups (all rewards equal, or a
// single rollout), failed_rewards where there are some; where pass_limit gives a limit and a group
// has several rewards, pass_at_1, pass_at_2, pass_at_4 ... (pass_rate.h) over its rewards;
// perf/sample_s and perf/reward_s, and where there were drafts perf/draft_accepted, the share of
// all tokens that a draft had right. Rewards are left out where none was given. Of a GroupQueue
// also attempts, valid_groups, stale_dropped and waiting_groups; zero_variance_groups is then its
// count.
Metrics rollout_metrics(const BodyRollouts& body);

// Writes `dir`/step_0000012.jsonl.zst, one object a rollout in the order of sampling, of a
// GroupQueue by group and sample:
//   {"row","group","sample","version","finish","prompt","text","ids","logprobs","reward","parts",
//    "passed","advantage","trained"}
// null are a reward that failed, passed where pass_limit gives nothing, and an advantage that no
// update had. Conversations also have "environment_reward" and "turns", a list of
//   {"begin","end","text","finish","tool_calls","reply"}: its sampled tokens are ids[begin:end],
//   and logprobs has those of all turns, one after the other.
// Where draws were truncated there is "logprobs_kept", over the tokens that were left; where
// experts are replayed, "routes", {"layers","top_k","experts"} of prompt and answer without the
// last token. Replaces a file of the same step, so that a repeated step leaves one. After a kill
// the file is absent or whole. Throws Error if it cannot be written.
void write_rollouts(const std::filesystem::path& dir, int64_t step, const BodyRollouts& body);

// Removes the temporary files that a killed process left in `dir`. Does nothing without the folder.
void remove_partial_rollouts(const std::filesystem::path& dir);

}  // namespace xrun
