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

// Every rollout that a body sampled, with those that a filter or a failed reward left out. A
// GroupQueue adds the groups that it gave or left out in the body; a group that waits is recorded
// in the body that trains it.
struct BodyRollouts {
  RolloutList all;
  double sample_s = 0, reward_s = 0;
  int64_t sampled = 0;  // tokens drawn in this body, including those of groups that wait
  int64_t failed_rewards = 0;
  int64_t early_rewards = 0;               // calls that returned while answers were still sampled
  std::optional<GroupCounts> counts = {};  // of a GroupQueue in this body
  std::optional<GroupCounts> totals = {};  // the same since the loop began
  int64_t batches = 0;                     // trained by the loop so far, this one included
  int64_t waiting = 0;                     // groups that its queue holds after it
  UpdateRecord updates = {};               // of the body so far
  std::optional<double> pass = {};         // an answer passes if its reward is above it
  bool pass_settled = false;               // if `pass` is absent, answers do not pass or fail
  int64_t drawn = 0, drafted = 0, accepted = 0;  // tokens (SamplerCounters)
  int64_t model_tokens = 0;  // the sampling model's limit of prompt and answer; 0: not known
};

// Returns the reward above which an answer passes: body.pass if it is given or settled, else 0 if
// every reward is 0 or 1, else nothing.
std::optional<double> pass_limit(const BodyRollouts& body);

// Returns the metrics of a body under rollout/ and perf/; those without a value are left out.
//   reward, reward_std, reward/<part>      over the rollouts that have a reward
//   length, length_p50, length_max         sampled tokens: mean, median, maximum
//   stopped                                share that ended before its limit
//   turns, truncated, aborted              with an environment: the mean, and shares
//   groups, zero_variance_groups           zero variance: rewards deviate by at most 1e-6
//   failed_rewards
//   attempts, valid_groups, stale_dropped, waiting_groups   of a GroupQueue in this body, which
//                                          then counts zero_variance_groups too
//   total_attempts, total_valid_groups, total_zero_variance_groups, total_stale_dropped,
//   attempts_per_batch                     the same since the loop began
//   pass_at_1, pass_at_2, pass_at_4, ...   pass_rate.h, where pass_limit gives a limit and a group
//   groups_all_passed, groups_none_passed  has several rewards; shares of groups
//   perf/sample_s, sample_tokens_per_s, reward_s
//   perf/early_rewards                     calls of rewards that returned during sampling, if any
//   perf/draft_accepted                    share of all tokens that a draft predicted
// and the path_metrics and ratio_metrics of its updates (update_record.h).
Metrics rollout_metrics(const BodyRollouts& body);

// Writes `dir`/step_0000012.jsonl.zst, one object per rollout in the order of sampling, or by group
// and sample with a GroupQueue:
//   {"row","group","sample","version","finish","prompt","text","ids","logprobs","reward","parts",
//    "passed","advantage","trained","location"}
// These are null: a reward that failed, `passed` where pass_limit gives nothing, and an advantage
// that no update had. `trained` and `advantage` are those of updates in this body: an answer that
// only a later body trains has false here. Conversations also have "environment_reward" and
// "turns", a list of
//   {"begin","end","text","finish","tool_calls","reply"}: its sampled tokens are ids[begin:end],
//   and logprobs has those of all turns, one after the other.
// Truncated draws add "logprobs_kept", over the tokens that were left; replayed experts add
// "routes", {"layers","top_k","experts"} of prompt and answer without the last token. Replaces a
// file of the same step, so that a repeated step leaves one. After a kill the file is absent or
// whole. Throws Error if it cannot be written.
void write_rollouts(const std::filesystem::path& dir, int64_t step, const BodyRollouts& body);

// Returns an estimate of the bytes that write_rollouts takes for answers of `tokens` sampled tokens
// each, prompts included: rather too many than too few.
int64_t rollout_bytes(int64_t answers, int64_t tokens);

// Removes the files of `step` and later, as a resume cuts metrics.jsonl, and the temporary files
// that a killed process left. Does nothing if there is no such folder.
void cut_rollouts(const std::filesystem::path& dir, int64_t step);

}  // namespace xrun
