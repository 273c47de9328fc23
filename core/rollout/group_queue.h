#pragma once
// A queue of groups of rollouts between sampling and training: dynamic sampling until a batch is
// full, and batches that are sampled ahead.

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "core/base/json.h"
#include "core/rollout/rollouts.h"

namespace xrun {

struct GroupQueueOptions {
  int64_t groups = 8;  // of a batch
  int64_t depth = 0;   // batches sampled ahead of the one that is taken; 0: none
  int64_t round = 0;   // prompts sampled at a time; 0: as many as groups are missing
  // A group is dropped after more than this many updates of the policy that sampled it.
  int64_t staleness = std::numeric_limits<int64_t>::max();
  int64_t max_attempts = 100;  // groups in a row without varied rewards, then an error
  double eps = 1e-6;           // a group is valid if its rewards deviate by more than this
};

struct GroupCounts {
  int64_t attempts = 0;       // groups sampled
  int64_t valid = 0;          // of these, groups with varied rewards
  int64_t zero_variance = 0;  // of these, groups without
  int64_t stale = 0;          // valid groups that were dropped later

  void add(const GroupCounts& more);
};

// The scored answers to some prompts.
struct SampledPrompts {
  std::vector<RolloutList> groups;  // one per prompt, in order; without samples whose reward failed
  RolloutList all;                  // every sample
};

// The groups of one batch.
struct TakenGroups {
  // In the order of their prompts; Rollout::prompt counts from 0. Copies that no queue shares.
  std::vector<RolloutList> groups;
  RolloutList left_out;  // sampled or dropped in this call and never trained
  GroupCounts counts;    // of this call
};

// Draws prompts of an endless stream by their index until enough groups are valid. Groups are
// accepted in the order of the stream, never in that of completion, so that short answers gain
// nothing. The result of take() is a function of the state, the weights and the rewards; nothing
// depends on time or threads. A copy shares the rollouts.
class GroupQueue {
 public:
  // Samples and scores the prompts first, ..., first + count - 1 of the stream.
  using SamplePrompts = std::function<SampledPrompts(int64_t first, int64_t count)>;

  // Throws Error for options out of range.
  explicit GroupQueue(const GroupQueueOptions& options);

  // Drops groups that are too old for a policy with `version` updates, samples until
  // groups * (depth + 1) groups wait, and returns the oldest `groups` of them. Groups of a dry
  // run's stand-in answers are always valid. If it throws, the queue is unchanged. Throws Error
  // after max_attempts groups in a row, counted over calls, without varied rewards. The message has
  // the counts, the mean reward, the likely cause and an answer.
  TakenGroups take(int64_t version, const SamplePrompts& sample);

  int64_t waiting() const { return std::ssize(waiting_); }  // groups
  int64_t cursor() const { return cursor_; }                // the next prompt of the stream
  const GroupCounts& counts() const { return counts_; }     // since the loop began

  // Returns everything but the options, including the waiting answers. After restore(), take()
  // returns the same bits.
  Json state() const;
  // Throws Error that names a missing or malformed member.
  void restore(const Json& state);

 private:
  // Consecutive groups without varied rewards.
  struct Streak {
    int64_t groups = 0, rewards = 0;
    double sum = 0, lowest = 0, highest = 0;
    std::shared_ptr<const Rollout> latest = nullptr;  // an answer for the error; not saved
    void add(const RolloutList& group);
  };
  void drop_stale(int64_t version, TakenGroups& taken);
  void accept(const SampledPrompts& sampled, TakenGroups& taken);
  [[noreturn]] void give_up() const;

  GroupQueueOptions options_;
  int64_t cursor_ = 0;
  GroupCounts counts_;
  Streak streak_;
  std::deque<RolloutList> waiting_;  // the oldest first
};

// The unbiased standard deviation of the rewards of a group; 0 for fewer than two.
double reward_deviation(const RolloutList& group);

}  // namespace xrun
