#pragma once
// One optimizer step: forward, objective and backward per micro-batch, then clip and update.

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/train/objective.h"

namespace xrun {

class AdamW;
class Batch;
class LogprobSource;
class Ranks;

// Values to log, in a fixed order. A name without '/' belongs to the step or the evaluation and
// gets a prefix ("train/", "valid/<name>/"), and so does the value of one source of a mixture
// ("loss/chats" beside "loss"); any other name with '/' ("perf/step_s") is final.
using Metrics = std::vector<std::pair<std::string, double>>;

// Returns the value of a full name, nullopt if it is absent.
std::optional<double> find_metric(const Metrics& metrics, std::string_view name);

// One term of a step's loss: weight * the weighted mean of the objective over the batch.
struct StepTerm {
  Batch* batch;
  Objective objective;
  double weight = 1.0;
};

struct StepOptions {
  std::optional<double> lr = {};    // in place of the schedule's
  std::function<void()> poll = {};  // called between micro-batches and before the update; may throw
  // The processes that share the step; null: this one alone. All hold the same terms.
  Ranks* ranks = nullptr;
  // If set, called in place of the update, while the optimizer holds the gradients.
  std::function<void()> read_gradients = {};
};

// Returns the models whose log-probs an optimizer trains, including those under a value head.
std::vector<const LogprobSource*> trained_sources(const AdamW& adamw);

// Runs one step over the sum of `terms` and returns its metrics: loss, the objectives' own,
// logprob_<view> and length_<view> of every view that a trained policy scored, grad_norm (before
// clipping), lr, perf/step_s, perf/tokens_per_s and perf/flops_per_s (model FLOPs of every forward
// and backward of the step, a reference's included; core/model/flops.h). All but perf/* have the
// same bits each time. For a mixture of experts also train/moe/aux_loss (balance in
// ops/moe_routing.h), train/moe/load_max, load_min and idle, over all tokens; with
// moe_aux > 0 in the policy the gradient is that of loss + moe_aux * aux_loss.
// For aligned data also align/chunks, wrong, one_sided, invalid, coverage, tokens_lost and
// tokens_cut (AlignmentCounts) and perf/align_s, the time of making the step's companions.
//   adamw  null: a dry step. The gradients go to whatever leaves the objectives read, no weights
//          are loaded or updated, and the metrics are loss and the objectives' own.
// With read_gradients nothing is updated either, and lr and perf/* are left out.
//
// Each unit's loss is multiplied by its weight and divided by the sum of that unit's weights over
// the whole step, so packing and micro-batching do not change the result. Metrics are
// means weighted the same way, in double; a scalar counts with its micro-batch's weight.
//
// Nothing is updated if the weights of all trained tokens, or of the units of all losses, sum to 0.
// The metrics are then skipped = 1, lr and align/*, without a loss.
//
// Consecutive micro-batches that begin with one prefix read it from a forward of it alone, which
// gets its backward after the last of them (held_prefix.h).
//
// Micro-batches are dealt to the ranks in turn, in the batch's order; those that share a prefix
// stay together. Gradients, metrics and numbers of seeds are those of one process, with the same
// bits in fp32 on the CPU; perf/* are those of all ranks together. If one rank fails, or is asked
// to stop before the update, all throw (core/dist/agreement.h).
//
// ATen's generator is seeded for micro-batch m from Philox(seed, stream, step, m). Views are closed
// and gradients freed at the end, after an exception too; weights and optimizer state are then
// untouched. Reads from the device once, at the end. Throws what an objective or poll throws, and
//   NonFiniteLoss  for a loss or a gradient that is not finite
//   BackwardError  for a loss without gradient, or if its backward fails
//   Error          for losses of a wrong length
Metrics train_step(const std::vector<StepTerm>& terms, AdamW* adamw,
                   const StepOptions& options = {});

}  // namespace xrun
