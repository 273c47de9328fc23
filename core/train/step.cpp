// loss = sum over terms and units of  weight_term * sum_i w_i loss_i / sum_i w_i,
// the inner sums over the whole step; gradients accumulate micro-batch by micro-batch. A work item
// is a micro-batch, or several that share a held prefix; ranks are dealt items.

#include "core/train/step.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/base/interrupt.h"
#include "core/base/philox.h"
#include "core/dist/agreement.h"
#include "core/dist/rank_message.h"
#include "core/dist/ranks.h"
#include "core/model/flops.h"
#include "core/model/ops/head_chunk.h"
#include "core/train/adamw.h"
#include "core/train/backward_error.h"
#include "core/train/batch.h"
#include "core/train/expert_balance.h"
#include "core/train/held_prefix.h"
#include "core/train/logprob_source.h"
#include "core/train/metric_sums.h"
#include "core/train/policy.h"
#include "core/train/scorer.h"
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

// Frees gradients, graphs and open views at both ends of a step, also by an exception.
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

// The losses of one micro-batch, held until the step knows whether they are finite.
struct MicroLosses {
  ObjectiveResult losses;  // detached
  const MicroBatch* micro;
  int64_t number;  // among the micro-batches of the step
  int64_t term;
  size_t micro_count;
};

// Micro-batches that one rank computes.
struct WorkItem {
  size_t term, begin, end;
  int64_t number;                      // of the first micro-batch, among all of the step
  std::shared_ptr<HeldPrefix> prefix;  // that they share; null: there is none
};

std::vector<WorkItem> work_items(const std::vector<StepTerm>& terms, bool holds_prefixes) {
  std::vector<WorkItem> items;
  int64_t first = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const auto& micros = terms[i].batch->micros();
    std::vector<std::shared_ptr<HeldPrefix>> prefixes;
    if (holds_prefixes) prefixes = held_prefixes(micros);
    auto prefix = prefixes.begin();
    for (size_t m = 0; m < micros.size(); m = items.back().end) {
      const bool held = prefix != prefixes.end() && m == (*prefix)->begin();
      const size_t end = held ? (*prefix)->end() : m + 1;
      items.push_back({i, m, end, first + static_cast<int64_t>(m), held ? *prefix++ : nullptr});
    }
    first += std::ssize(micros);
  }
  return items;
}

// Values of a step that are summed over ranks.
struct RankCounts {
  double flops = 0, recomputed = 0;
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

// The objective has returned by now, so the error's own type has to name it. Too little memory is
// no fault of the objective.
void run_backward(const at::Tensor& loss) {
  try {
    loss.backward();
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    throw BackwardError(fmt::format("the backward pass of the objective failed: {}",
                                    error.what_without_backtrace()));
  }
}

// Adds the counts of the step's alignments and the seconds that they took.
void add_alignment(const std::vector<StepTerm>& terms, Metrics& metrics) {
  AlignmentCounts sum;
  bool aligned = false;
  for (const StepTerm& term : terms) {
    sum.add(term.batch->alignment());
    aligned |= term.batch->info().aligned;
  }
  if (!aligned) return;
  std::vector<double> counts;
  for (const int64_t n : {sum.chunks, sum.wrong, sum.one_sided, sum.tokens, sum.covered}) {
    counts.push_back(static_cast<double>(n));
  }
  const double tokens = counts[3], covered = counts[4];
  metrics.emplace_back("align/chunks", counts[0]);
  metrics.emplace_back("align/wrong", counts[1]);
  metrics.emplace_back("align/one_sided", counts[2]);
  metrics.emplace_back("align/coverage", tokens > 0 ? covered / tokens : 1);
  metrics.emplace_back("align/tokens_lost", tokens - covered);
  metrics.emplace_back("perf/align_s", sum.seconds);
}

// Forward, objective and backward of every micro-batch.
class StepGradient {
 public:
  // Without an optimizer no model is read: a dry step loads no weights.
  StepGradient(AdamW* adamw, const StepOptions& options)
      : options_(options), adamw_(adamw), ranks_(adamw == nullptr ? nullptr : options.ranks) {
    if (adamw == nullptr) return;
    sources_ = trained_sources(*adamw);
    experts_ = ExpertBalance(*adamw);
  }

  void accumulate(const std::vector<StepTerm>& terms, const std::vector<UnitTotals>& totals) {
    // Before any backward: f must be constant over the whole step.
    experts_.count(terms, options_.poll, ranks_);
    const std::vector<WorkItem> items = work_items(terms, adamw_ != nullptr);
    const size_t size = ranks_ == nullptr ? 1 : static_cast<size_t>(ranks_->size());
    const size_t rank = ranks_ == nullptr ? 0 : static_cast<size_t>(ranks_->rank());
    for (size_t first = 0; first < items.size(); first += size) {
      const size_t own = first + rank;
      const bool works = own < items.size();
      const auto compute = [&] {
        if (works) accumulate_item(items[own], terms, totals);
      };
      if (adamw_ == nullptr) {
        compute();
        continue;
      }
      const GradientRound round{
          .items = static_cast<int64_t>(std::min(size, items.size() - first)),
          // Alone in the step of one process an item needs no sum of its own.
          .one_backward = !works || items[own].prefix == nullptr ||
                          (items.size() == 1 && ranks_ == nullptr),
          .last = first + size >= items.size()};
      agree(ranks_, fmt::format("round {} of the step", first / size),
            [&] { add_round(round, compute); });
    }
  }

  // The one read of the step, of all ranks. Throws NonFiniteLoss; Interrupted if a rank is to stop.
  MetricSums::Read read(const std::vector<StepTerm>& terms, const at::Tensor& grad_norm,
                        RankCounts& counts) {
    if (ranks_ == nullptr) return checked(sums_.read(grad_norm), terms);
    MessageWriter own;
    own.real(counts.flops).real(counts.recomputed).whole(interrupt_signal());
    own.text(experts_.message());
    MetricSums::Read read = sums_.read(grad_norm, ranks_, own.take());
    counts = {};
    std::vector<std::string> routing;
    int64_t signal_number = 0;
    for (const std::string& note : read.notes) {
      MessageReader in(note);
      counts.flops += in.real();
      counts.recomputed += in.real();
      if (const int64_t raised = in.whole(); raised != 0) signal_number = raised;
      routing.emplace_back(in.text());
    }
    experts_.take(routing);
    read = checked(std::move(read), terms);
    // Only what all ranks know may stop them here: a signal may have reached one a moment ago.
    if (signal_number != 0) {
      request_interrupt(static_cast<int>(signal_number));
      if (options_.poll) options_.poll();
    }
    return read;
  }

  const ExpertBalance& experts() const { return experts_; }

 private:
  MetricSums::Read checked(MetricSums::Read read, const std::vector<StepTerm>& terms) const {
    for (const MetricSums::MicroLoss& loss : read.losses) {
      // Checked after the backward on purpose: a test per micro-batch would sync with the device
      // each time.
      if (!std::isfinite(loss.value)) check_loss(loss);
    }
    if (!std::isfinite(read.extra)) throw bad_gradient(read.extra, terms);
    return read;
  }

  // Throws NonFiniteLoss on every rank, if a value of this micro-batch's losses is not finite.
  void check_loss(const MetricSums::MicroLoss& loss) const {
    if (ranks_ == nullptr) return check_own_loss(loss.micro);
    MessageWriter found;
    if (loss.rank == ranks_->rank()) {
      try {
        check_own_loss(loss.micro);
      } catch (const NonFiniteLoss& error) {
        found.text(error.what()).whole(error.term()).whole(error.micro()).list(error.rows());
      }
    }
    const std::string message =
        ranks_->broadcast("a loss that is not finite", found.take(), loss.rank);
    if (message.empty()) return;
    MessageReader in(message);
    const std::string text = fmt::format("rank {} of {}: {}", loss.rank, ranks_->size(), in.text());
    const int64_t term = in.whole(), micro = in.whole();
    throw NonFiniteLoss(text, term, micro, in.list<int64_t>());
  }

  void check_own_loss(int64_t number) const {
    for (const MicroLosses& own : losses_) {
      if (own.number == number) check_finite(own.losses, *own.micro, own.term, own.micro_count);
    }
  }

  // An item that fails still ends its round: other ranks wait for its part of the collectives.
  void add_round(const GradientRound& round, const std::function<void()>& compute) {
    adamw_->begin_round(round);
    std::exception_ptr failure;
    try {
      compute();
    } catch (...) {
      failure = std::current_exception();
    }
    if (ranks_ != nullptr || !failure) adamw_->end_round();
    if (failure) std::rethrow_exception(failure);
  }

  // Computes a shared prefix with the first of its micro-batches, and its gradient after the last.
  void accumulate_item(const WorkItem& item, const std::vector<StepTerm>& terms,
                       const std::vector<UnitTotals>& totals) {
    const auto& micros = terms[item.term].batch->micros();
    int64_t number = item.number;
    for (size_t m = item.begin; m < item.end; ++m) {
      if (item.prefix) micros[m]->begin_with(item.prefix);
      add(*micros[m], number++, terms, item.term, totals[item.term]);
      if (item.prefix) item.prefix->collect();
    }
    if (item.prefix) item.prefix->backward();
  }

  void add(MicroBatch& micro, int64_t number, const std::vector<StepTerm>& terms, size_t i,
           const UnitTotals& totals) {
    if (options_.poll) options_.poll();
    // Every micro-batch has its own seed, so that a resumed run draws the same numbers.
    at::manual_seed(philox_u64(micro.info().seed, kStreamMicro,
                               static_cast<uint64_t>(micro.info().step),
                               static_cast<uint64_t>(number)));
    ObjectiveResult result = terms[i].objective(micro);
    check_result(result, micro);
    const WeightedLoss loss = weighted_loss(result, micro, totals, terms[i].weight);
    // An empty micro-batch has no graph.
    if (!loss.graph.requires_grad() && micro.token_count() > 0) {
      throw BackwardError(
          "the loss does not depend on the trained weights: it has no gradient; compute it from "
          "policy:logprob or policy:token_logprob, and detach only what is constant");
    }
    const at::Tensor balance = experts_.share(micro, number);
    const at::Tensor total = balance.defined() ? loss.graph.add(balance) : loss.graph;
    if (total.requires_grad()) run_backward(total);
    sums_.begin(number);
    sums_.add_loss(loss.value);
    sums_.add_source_losses(result, micro, static_cast<int64_t>(i), terms[i].weight);
    sums_.add_metrics(result, micro, static_cast<int64_t>(i));
    sums_.add_scored(micro, sources_);
    // Values are held for the message of a non-finite loss; graphs and metrics are freed now.
    result.metrics.clear();
    for (auto& unit_loss : result.losses) unit_loss.second = unit_loss.second.detach();
    losses_.push_back({std::move(result), &micro, number, static_cast<int64_t>(i),
                       terms[i].batch->micros().size()});
    // One graph at a time: this bounds the memory of a step by that of a micro-batch.
    micro.close();
  }

  static NonFiniteLoss bad_gradient(double norm, const std::vector<StepTerm>& terms) {
    std::vector<int64_t> rows;
    for (const StepTerm& term : terms) {
      for (const auto& micro : term.batch->micros()) {
        const std::vector<int64_t>& own = micro->pack().row_id;
        rows.insert(rows.end(), own.begin(), own.end());
      }
    }
    return NonFiniteLoss(
        fmt::format("the gradient norm is {} at step {} although every loss is finite; look for a "
                    "0/0 in the objective's gradient, or lower optim.lr",
                    norm, terms.front().batch->step()),
        0, -1, std::move(rows));
  }

  const StepOptions& options_;
  AdamW* adamw_;  // null: a dry step
  Ranks* ranks_;  // null: one process
  std::vector<const LogprobSource*> sources_;
  ExpertBalance experts_;
  MetricSums sums_;
  std::vector<MicroLosses> losses_;  // of this rank's micro-batches
};

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
  if (token_weight(terms, totals) == 0) {
    Metrics skipped = {{"skipped", 1.0}};
    if (updates) skipped.emplace_back("lr", lr);
    return skipped;
  }
  StepGradient gradient(adamw, options);
  gradient.accumulate(terms, totals);
  RankCounts counts;
  if (adamw == nullptr) return gradient.read(terms, {}, counts).metrics;
  // Now, because an update has no FLOPs of this kind, and the read adds those of other ranks.
  counts = {counted_flops() - flops, static_cast<double>(head_counts().recomputed - recomputed)};
  MetricSums::Read read = gradient.read(terms, adamw->grad_norm(), counts);
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
