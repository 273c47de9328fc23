// loss = sum over parts and units of  weight_part * sum_i w_i loss_i / sum_i w_i,
// the inner sums over the whole step; its gradient is gathered micro-batch by micro-batch.

#include "core/train/step.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include <chrono>
#include <cmath>

#include "core/base/philox.h"
#include "core/model/ops/head_chunk.h"
#include "core/train/adamw.h"
#include "core/train/batch.h"
#include "core/train/expert_balance.h"
#include "core/train/logprob_source.h"
#include "core/train/metric_sums.h"
#include "core/train/policy.h"
#include "core/train/ranks.h"
#include "core/train/scorer.h"

namespace xrun {

std::optional<double> find_metric(const Metrics& metrics, std::string_view name) {
  for (const auto& [known, value] : metrics) {
    if (known == name) return value;
  }
  return std::nullopt;
}

namespace {

using Clock = std::chrono::steady_clock;

// Leaves nothing of a step behind, whichever way it ends: no gradient, no graph, no open view.
class StepScope {
 public:
  StepScope(std::span<const StepPart> parts, AdamW* adamw) : parts_(parts), adamw_(adamw) {
    if (adamw_ != nullptr) adamw_->clear_gradients();
    for (const StepPart& part : parts_) {
      for (const auto& micro : part.batch->micros()) micro->clear_scored();
    }
  }
  ~StepScope() {
    if (adamw_ != nullptr) adamw_->clear_gradients();
    for (const StepPart& part : parts_) part.batch->close();
  }
  StepScope(const StepScope&) = delete;
  StepScope& operator=(const StepScope&) = delete;

 private:
  std::span<const StepPart> parts_;
  AdamW* adamw_;  // null: a dry step
};

// The losses of one micro-batch, kept until the step knows that they are finite.
struct Kept {
  ObjectiveResult losses;  // detached
  const MicroBatch* micro;
  int64_t part;
  size_t micro_count;
};

UnitTotals unit_totals(const Batch& batch, Ranks* ranks) {
  UnitTotals totals;
  for (const auto& micro : batch.micros()) add_unit_weights(totals, *micro);
  if (ranks == nullptr) return totals;
  // A rank may hold no micro-batch at all: every rank sends every unit.
  std::vector<double> sums;
  for (const Unit unit : kUnits) sums.push_back(totals[unit]);
  ranks->sum(sums);
  size_t next = 0;
  for (const Unit unit : kUnits) totals[unit] = sums[next++];
  return totals;
}

std::vector<UnitTotals> part_totals(std::span<const StepPart> parts, Ranks* ranks) {
  std::vector<UnitTotals> totals;
  for (const StepPart& part : parts) totals.push_back(unit_totals(*part.batch, ranks));
  return totals;
}

// The weight of all tokens that a step trains, over all ranks.
double token_weight(std::span<const StepPart> parts, std::vector<UnitTotals>& totals) {
  double weight = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    weight += std::fabs(parts[i].weight) * totals[i][Unit::kToken];
  }
  return weight;
}

std::vector<const LogprobSource*> trained_sources(const AdamW& adamw) {
  std::vector<const LogprobSource*> sources;
  for (const auto& trainable : adamw.trainables()) {
    if (auto source = dynamic_cast<const LogprobSource*>(trainable.get())) {
      sources.push_back(source);
    } else if (auto scorer = dynamic_cast<const Scorer*>(trainable.get())) {
      sources.push_back(scorer->policy().get());
    }
  }
  return sources;
}

// Everything between the first forward and the update.
class Gatherer {
 public:
  // Without an optimizer no model is asked for anything.
  Gatherer(const AdamW* adamw, const StepOptions& options) : options_(options) {
    if (adamw == nullptr) return;
    sources_ = trained_sources(*adamw);
    experts_ = ExpertBalance(*adamw);
  }

  // Before the first run(): what terms of the whole step need to know.
  void prepare(std::span<const StepPart> parts) { experts_.count(parts, options_.poll); }

  void run(const StepPart& part, const UnitTotals& totals, int64_t part_index) {
    const auto& micros = part.batch->micros();
    for (const auto& micro : micros) {
      if (options_.poll) options_.poll();
      at::manual_seed(philox_u64(micro->info().seed, kStreamMicro,
                                 static_cast<uint64_t>(micro->info().step), seeds_++));
      ObjectiveResult result = part.objective(*micro);
      check_result(result, *micro);
      const WeightedLoss loss = weighted_loss(result, *micro, totals, part.weight);
      XRUN_CHECK(loss.graph.requires_grad() || micro->token_count() == 0,
                 "the loss does not depend on the trained weights: it has no gradient; compute it "
                 "from policy:logprob or policy:token_logprob, and detach only what is constant");
      const at::Tensor balance = experts_.share(*micro);
      const at::Tensor total = balance.defined() ? loss.graph.add(balance) : loss.graph;
      if (total.requires_grad()) total.backward();
      sums_.add_loss(loss.value);
      sums_.add_metrics(result, *micro);
      sums_.add_scored(*micro, sources_);
      tokens_ += micro->token_count();
      result.metrics.clear();
      for (auto& unit_loss : result.losses) unit_loss.second = unit_loss.second.detach();
      kept_.push_back({std::move(result), micro.get(), part_index, micros.size()});
      micro->close();
    }
  }

  // The one read of the step. Throws NonFiniteLoss.
  MetricSums::Read read(const at::Tensor& grad_norm) const {
    MetricSums::Read read = sums_.read(options_.ranks, grad_norm);
    for (size_t i = 0; i < read.losses.size(); ++i) {
      if (std::isfinite(read.losses[i])) continue;
      check_finite(kept_[i].losses, *kept_[i].micro, kept_[i].part, kept_[i].micro_count);
    }
    if (!std::isfinite(read.extra)) throw bad_gradient(read.extra);
    return read;
  }

  int64_t tokens() const { return tokens_; }
  const ExpertBalance& experts() const { return experts_; }

 private:
  NonFiniteLoss bad_gradient(double norm) const {
    std::vector<int64_t> rows;
    for (const Kept& kept : kept_) {
      const std::vector<int64_t>& own = kept.micro->pack().row_id;
      rows.insert(rows.end(), own.begin(), own.end());
    }
    const int64_t step = kept_.empty() ? 0 : kept_.front().micro->info().step;
    return NonFiniteLoss(
        fmt::format("the gradient norm is {} at step {} although every loss is finite; look for a "
                    "0/0 in the objective's gradient, or lower optim.lr",
                    norm, step),
        0, -1, std::move(rows));
  }

  const StepOptions& options_;
  std::vector<const LogprobSource*> sources_;
  ExpertBalance experts_;
  MetricSums sums_;
  std::vector<Kept> kept_;
  int64_t tokens_ = 0;
  uint64_t seeds_ = 0;
};

}  // namespace

Metrics train_step(Batch& batch, const Objective& objective, AdamW& adamw,
                   const StepOptions& options) {
  const StepPart part{&batch, objective};
  return train_step(std::span<const StepPart>(&part, 1), adamw, options);
}

Metrics train_step(std::span<const StepPart> parts, AdamW& adamw, const StepOptions& options) {
  XRUN_CHECK(!parts.empty(), "a step needs at least one batch");
  const auto begin = Clock::now();
  const int64_t recomputed = head_counts().recomputed;
  const Batch& first = *parts.front().batch;
  const double lr = options.lr ? *options.lr : adamw.lr(first.schedule_step(), first.total_steps());
  const at::AutoGradMode gradients_on(true);
  const StepScope scope(parts, &adamw);

  std::vector<UnitTotals> totals = part_totals(parts, options.ranks);
  if (token_weight(parts, totals) == 0) return {{"skipped", 1.0}, {"lr", lr}};
  Gatherer gatherer(&adamw, options);
  gatherer.prepare(parts);
  for (size_t i = 0; i < parts.size(); ++i) {
    gatherer.run(parts[i], totals[i], static_cast<int64_t>(i));
  }
  if (options.ranks != nullptr) {
    std::vector<at::Tensor> gradients = adamw.gradients();
    options.ranks->sum(gradients);
  }
  auto [metrics, losses, grad_norm] = gatherer.read(adamw.grad_norm());
  if (options.poll) options.poll();
  adamw.update(lr, grad_norm);

  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  metrics.emplace_back("grad_norm", grad_norm);
  metrics.emplace_back("lr", lr);
  gatherer.experts().report(metrics);
  metrics.emplace_back("perf/step_s", seconds);
  metrics.emplace_back("perf/tokens_per_s", static_cast<double>(gatherer.tokens()) / seconds);
  if (const int64_t more = head_counts().recomputed - recomputed; more > 0) {
    metrics.emplace_back("perf/head_recomputed", static_cast<double>(more));
  }
  return metrics;
}

Metrics step_without_update(std::span<const StepPart> parts, AdamW& adamw,
                            const std::function<void()>& look, const StepOptions& options) {
  XRUN_CHECK(!parts.empty(), "a step needs at least one batch");
  const at::AutoGradMode gradients_on(true);
  const StepScope scope(parts, &adamw);
  std::vector<UnitTotals> totals = part_totals(parts, options.ranks);
  if (token_weight(parts, totals) == 0) return {{"skipped", 1.0}};
  Gatherer gatherer(&adamw, options);
  gatherer.prepare(parts);
  for (size_t i = 0; i < parts.size(); ++i) {
    gatherer.run(parts[i], totals[i], static_cast<int64_t>(i));
  }
  auto [metrics, losses, grad_norm] = gatherer.read(adamw.grad_norm());
  metrics.emplace_back("grad_norm", grad_norm);
  look();
  return metrics;
}

Metrics dry_step(std::span<const StepPart> parts, const StepOptions& options) {
  XRUN_CHECK(!parts.empty(), "a step needs at least one batch");
  const at::AutoGradMode gradients_on(true);
  const StepScope scope(parts, nullptr);
  std::vector<UnitTotals> totals = part_totals(parts, options.ranks);
  if (token_weight(parts, totals) == 0) return {{"skipped", 1.0}};
  Gatherer gatherer(nullptr, options);
  for (size_t i = 0; i < parts.size(); ++i) {
    gatherer.run(parts[i], totals[i], static_cast<int64_t>(i));
  }
  return gatherer.read({}).metrics;
}

}  // namespace xrun
