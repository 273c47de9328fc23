#pragma once
// One optimizer step over a batch: forward, objective, backward per micro-batch, clip, update.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/train/objective.h"

namespace xrun {

class AdamW;
class Batch;
class Ranks;

// Values to log, in a fixed order. A name without '/' is the step's or the evaluation's own and
// gets a prefix ("train/", "valid/<name>/"); one with '/' ("perf/step_s") is final.
using Metrics = std::vector<std::pair<std::string, double>>;

// The value of a full name; nothing if it is not there.
std::optional<double> find_metric(const Metrics& metrics, std::string_view name);

struct StepOptions {
  std::optional<double> lr;    // instead of the schedule's
  std::function<void()> poll;  // called between micro-batches and before the update; may throw
  Ranks* ranks = nullptr;      // data-parallel peers; null is one process
};

// One batch of a step with its objective; its loss is multiplied by weight.
struct StepPart {
  Batch* batch;
  Objective objective;
  double weight = 1.0;
};

// Runs one step and returns its metrics: loss, the objective's own, logprob_<view> and
// length_<view> of every view that a trained policy scored, grad_norm (before clipping), lr,
// perf/step_s, perf/tokens_per_s. All but perf/* have the same bits each time. Of a mixture of
// experts also train/moe/aux_loss (balance in moe.h) and train/moe/load_max, load_min and idle
// (expert_load), over all tokens that this process trained on. With moe_aux > 0 of the policy the
// gradient is that of loss + moe_aux * aux_loss.
//
// Each unit's loss is multiplied by its weight and divided by the sum of that unit's weights over
// the whole step and all ranks, so that packing and micro-batching do not
// change the result. Metrics are means weighted the same way, in double; a scalar counts with its
// micro-batch's weight.
//
// Where the weights of all trained tokens add up to 0 nothing is computed or updated: the metrics
// are skipped 1 and lr: there is no loss.
//
// ATen's generator is seeded for micro-batch m from Philox(seed, stream, step, m). Views are closed
// and gradients freed at the end, also by an exception; after an exception weights and optimizer
// state are untouched. Throws NonFiniteLoss, Error for a wrong length or a loss without gradient,
// and whatever the objective or poll throws. One read from the device a step, at its end.
Metrics train_step(Batch& batch, const Objective& objective, AdamW& adamw,
                   const StepOptions& options = {});
Metrics train_step(std::span<const StepPart> parts, AdamW& adamw, const StepOptions& options = {});

// Everything of a step but its update: `look` may read the gradients (AdamW::gradients) before they
// are freed. The metrics are loss, the objectives' own and grad_norm.
Metrics step_without_update(std::span<const StepPart> parts, AdamW& adamw,
                            const std::function<void()>& look, const StepOptions& options = {});

// A step without weights: objectives and their gradients with respect to whatever leaves they
// read, then loss and the objectives' metrics. Nothing is updated; options.lr is of no account.
Metrics dry_step(std::span<const StepPart> parts, const StepOptions& options = {});

}  // namespace xrun
