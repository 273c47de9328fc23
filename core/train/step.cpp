// loss = sum over terms and units of  weight_term * sum_i w_i loss_i / sum_i w_i,
// the inner sums over the whole step; gradients accumulate micro-batch by micro-batch.

#include "core/train/step.h"

#include <ATen/core/grad_mode.h>

#include <chrono>
#include <cmath>

#include "core/model/flops.h"
#include "core/model/ops/head_block.h"
#include "core/train/adamw.h"
#include "core/train/batches/batch.h"
#include "core/train/models/logprob_source.h"
#include "core/train/models/policy.h"
#include "core/train/models/scorer.h"
#include "core/train/step_gradient.h"
#include "core/train/weighted_loss.h"

namespace xrun {

std::optional<double> find_metric(const Metrics& metrics, std::string_view name) {
  for (const auto& [known, value] : metrics) {
    if (known == name) return value;
  }
  return std::nullopt;
}

namespace {

using Clock = std::chrono::steady_clock;

// Starts a step without old gradients and scores; frees gradients, graphs and views at its end,
// also after an exception.
class StepScope {
 public:
  StepScope(const std::vector<StepTerm>& terms, AdamW* adamw) : terms_(terms), adamw_(adamw) {
    if (adamw_ != nullptr) adamw_->clear_gradients();
    for (const StepTerm& term : terms_) {
      // A batch may be stepped twice; the first step's scores are not the second's metrics.
      for (const auto& micro : term.batch->micros()) micro->clear_scored();
    }
  }
  ~StepScope() {
    if (adamw_ != nullptr) adamw_->clear_gradients();
    // Also on an exception: a graph that stays would hold gigabytes while the recipe handles the
    // error.
    for (const StepTerm& term : terms_) term.batch->close();
  }
  StepScope(const StepScope&) = delete;
  StepScope& operator=(const StepScope&) = delete;

 private:
  const std::vector<StepTerm>& terms_;
  AdamW* adamw_;  // null: a dry step
};

UnitTotals unit_totals(const Batch& batch) {
  UnitTotals totals;
  for (const auto& micro : batch.micros()) add_unit_weights(totals, *micro);
  return totals;
}

std::vector<UnitTotals> term_totals(const std::vector<StepTerm>& terms) {
  std::vector<UnitTotals> totals;
  for (const StepTerm& term : terms) totals.push_back(unit_totals(*term.batch));
  return totals;
}

// The weight of all tokens that a step trains.
double token_weight(const std::vector<StepTerm>& terms, std::vector<UnitTotals>& totals) {
  double weight = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    weight += std::fabs(terms[i].weight) * totals[i][Unit::kToken];
  }
  return weight;
}

// Adds the counts of the step's chunks and the seconds that their alignment took.
void add_alignment(const std::vector<StepTerm>& terms, Metrics& metrics) {
  AlignmentCounts sum;
  bool chunked = false;
  for (const StepTerm& term : terms) {
    sum.add(term.batch->alignment());
    chunked |= term.batch->info().chunked;
  }
  if (!chunked) return;
  const auto count = [&](const char* name, int64_t n) {
    metrics.emplace_back(std::string("align/") + name, static_cast<double>(n));
  };
  count("chunks", sum.chunks);
  count("wrong", sum.wrong);
  count("one_sided", sum.one_sided);
  count("invalid", sum.invalid);
  const auto tokens = static_cast<double>(sum.tokens), covered = static_cast<double>(sum.covered);
  metrics.emplace_back("align/coverage", tokens > 0 ? covered / tokens : 1);
  count("tokens_lost", sum.tokens - sum.covered);
  count("tokens_cut", sum.cut);
  metrics.emplace_back("perf/align_s", sum.seconds);
}

}  // namespace

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

Metrics train_step(const std::vector<StepTerm>& terms, AdamW* adamw, const StepOptions& options) {
  XRUN_CHECK(!terms.empty(), "a step needs at least one batch");
  XRUN_CHECK(adamw == nullptr || adamw->dist().ranks == options.ranks,
             "the optimizer was made for other ranks than those that share this step");
  const auto begin = Clock::now();
  const int64_t recomputed = head_counts().recomputed;
  const double flops = counted_flops();
  const bool updates = adamw != nullptr && !options.read_gradients;
  const Batch& first = *terms.front().batch;
  const double lr = options.lr || !updates ? options.lr.value_or(0)
                                           : adamw->lr(first.schedule_step(), first.total_steps());
  // A recipe may call the step inside xrun.no_grad.
  const at::AutoGradMode gradients_on(true);
  const StepScope scope(terms, adamw);

  // Denominators first: the packs have them, so no forward has to wait for another.
  std::vector<UnitTotals> totals = term_totals(terms);
  // Nothing to learn from: an update would only decay the weights and move the moments.
  Metrics skipped = {{"skipped", 1.0}};
  if (updates) skipped.emplace_back("lr", lr);
  const auto skip = [&] {
    add_alignment(terms, skipped);  // a step that loses everything must say so
    return skipped;
  };
  if (token_weight(terms, totals) == 0) return skip();
  StepGradient gradient(adamw, options);
  gradient.accumulate(terms, totals);
  RankCounts counts;
  if (adamw == nullptr) return gradient.read(terms, {}, counts).metrics;
  // Counted now: an update has no FLOPs of this kind, and the read adds those of other ranks.
  counts = {counted_flops() - flops, static_cast<double>(head_counts().recomputed - recomputed)};
  MetricSums::ReadSums read = gradient.read(terms, adamw->grad_norm(), counts);
  // No trained token belongs to a unit of the losses (a chunk, for example): the gradient is 0.
  if (gradient.loss_weight() == 0) return skip();
  Metrics& metrics = read.metrics;
  const double grad_norm = read.extra;
  metrics.emplace_back("grad_norm", grad_norm);
  if (options.read_gradients) {
    options.read_gradients();
    return metrics;
  }
  // The last point at which an interrupted step leaves the weights untouched.
  if (options.poll && options.ranks == nullptr) options.poll();
  adamw->update(lr, grad_norm);

  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  double tokens = 0;
  for (const StepTerm& term : terms) tokens += static_cast<double>(term.batch->token_count());
  metrics.emplace_back("lr", lr);
  gradient.experts().report(metrics);
  metrics.emplace_back("perf/step_s", seconds);
  metrics.emplace_back("perf/tokens_per_s", tokens / seconds);
  metrics.emplace_back("perf/flops_per_s", counts.flops / seconds);
  add_alignment(terms, metrics);
  if (counts.recomputed > 0) metrics.emplace_back("perf/head_recomputed", counts.recomputed);
  return metrics;
}

}  // namespace xrun
