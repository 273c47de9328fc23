#pragma once
// Records how the updates of a body used its rollouts: how many trained tokens took each loss path,
// and how far the sampler's log-probs were from those of the training forward.
//
// Paths of a policy-gradient loss: on-policy (the answer was sampled by the weights that the update
// changes, so its ratio is 1), clipped (sampled by earlier weights, the loss reads old_logprob),
// and corrected (the same, weighted by View::truncated_ratio).

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/rollout/rollouts.h"
#include "core/train/objective.h"
#include "core/train/step.h"

namespace xrun {

class Policy;
class Ranks;

// Sums over the ratios exp(difference) of tokens. The difference of the two log-probs is clamped to
// 20 in size, so that every sum stays finite.
struct RatioSums {
  int64_t tokens = 0;
  double distance_sum = 0, distance_max = 0;  // of |difference|
  double ratio_sum = 0, ratio_max = 0;
  double error_sum = 0;  // of exp|difference|
  int64_t outside = 0;   // tokens whose ratio leaves [0.9, 1.1]

  void add(double difference);
  void add(const RatioSums& other);
};

// Sums over trained tokens.
struct PathCounts {
  int64_t tokens = 0;                  // on a path; 0: no policy gradient
  int64_t clipped = 0, corrected = 0;  // of these
  int64_t oldest = 0;  // updates since the oldest answer was sampled, trained or not
  RatioSums old;       // to old_logprob, of tokens on a path
  RatioSums sampler;   // to the sampler, of tokens that the present weights sampled

  void add(const PathCounts& other);
};

// The sums of all updates of a body.
struct UpdateRecord : PathCounts {
  int64_t updates = 0;
  // "the mean over 1,024 tokens" of the first update; several are joined by " + ".
  std::string loss;

  // "on-policy", or "clipped (50 % of the trained tokens, up to 2 updates old)"; "" without tokens.
  std::string path() const;
};

// Returns the metrics of `old` and of `sampler`; those without a token are left out. The last
// column is the exact value if both sides compute the same bits.
//   train/ratio_mean, ratio_max                    of `old`                                    1
//   rollout/logprob_diff_mean, logprob_diff_max    of |log p - sampler's log p|                0
//   rollout/token_mult_prob_error                  the mean of exp|difference| (NeMo RL)       1
//   rollout/ratio_outside                          share of ratios that leave [0.9, 1.1]       0
Metrics ratio_metrics(const RatioSums& old, const RatioSums& sampler);

// Returns train/path_on_policy, path_clipped and path_corrected, the shares of the tokens on a
// path; nothing without such tokens.
Metrics path_metrics(const PathCounts& counts);

// Watches one update of a batch of rollouts. Each rank measures its own micro-batches.
class WatchedUpdate {
 public:
  // Both outlive it.
  WatchedUpdate(const Rollouts& batch, const Policy& policy) : batch_(batch), policy_(policy) {}

  // Returns the objective followed by the checks and measurements of this class; this object must
  // outlive it. The returned objective throws Error if answers of earlier weights are trained by an
  // objective that reads the advantage but neither old_logprob nor a correction, or by reinforce()
  // without a correction: nothing would make up for the difference between the policies.
  Objective watch(Objective objective);

  // Appends the path_metrics and ratio_metrics of this update; adds to `record`. With ranks (null:
  // one process), the measurements of all are summed in the order of the micro-batches.
  void report(Metrics& metrics, UpdateRecord& record, Ranks* ranks) const;

 private:
  // Counts of one micro-batch.
  struct MicroCounts : PathCounts {
    int64_t micro = 0;  // its index
  };
  using UnitCounts = std::vector<std::pair<Unit, int64_t>>;  // losses of each unit, in their order

  void measure(MicroBatch& micro, const ObjectiveResult& result);
  // Adds to `to` the tokens' ratios to old_logprob, if `on_path`, and the ratios of `fresh`
  // segments to the sampler's log-probs.
  void compare(MicroBatch& micro, const std::vector<uint8_t>& fresh, bool on_path, MicroCounts& to);
  static void add_units(UnitCounts& to, Unit unit, int64_t count);
  // Replaces the measurements of this rank by those of all ranks.
  static void gather(Ranks& ranks, std::vector<MicroCounts>& measured, UnitCounts& units);

  const Rollouts& batch_;
  const Policy& policy_;
  std::vector<MicroCounts> measured_;
  UnitCounts units_;
};

}  // namespace xrun
