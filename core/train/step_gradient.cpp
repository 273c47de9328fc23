// A work item is a micro-batch, or several that share a held prefix. Items are dealt to the ranks
// in turn, in the batch's order, so that gradients are added in the order of one process.

#include "core/train/step_gradient.h"

#include <ATen/Context.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>

#include "core/base/interrupt.h"
#include "core/base/philox.h"
#include "core/dist/agreement.h"
#include "core/dist/rank_message.h"
#include "core/dist/ranks.h"
#include "core/train/adamw.h"
#include "core/train/backward_error.h"
#include "core/train/batches/batch.h"
#include "core/train/batches/held_prefix.h"
#include "core/train/models/gradient_exchange.h"
#include "core/train/models/logprob_source.h"

namespace xrun {

// Micro-batches that one rank computes.
struct WorkItem {
  size_t term, begin, end;
  int64_t number;                      // of the first micro-batch, among all of the step
  std::shared_ptr<HeldPrefix> prefix;  // that they share; null: there is none
};

namespace {

std::vector<WorkItem> work_items(const std::vector<StepTerm>& terms, bool holds_prefixes) {
  std::vector<WorkItem> items;
  int64_t first = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const auto& micros = terms[i].batch->micros();
    std::vector<std::shared_ptr<HeldPrefix>> prefixes;
    if (holds_prefixes) prefixes = held_prefixes(micros);
    auto prefix = prefixes.begin();
    // Prefixes are in the order of their first micro-batch.
    for (size_t m = 0; m < micros.size(); m = items.back().end) {
      const bool held = prefix != prefixes.end() && m == (*prefix)->begin();
      const size_t end = held ? (*prefix)->end() : m + 1;
      items.push_back({i, m, end, first + static_cast<int64_t>(m), held ? *prefix++ : nullptr});
    }
    first += std::ssize(micros);
  }
  return items;
}

// The objective has returned, so only the type of the error shows that the backward failed. Too
// little memory is not the fault of the objective.
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

NonFiniteLoss bad_gradient(double norm, const std::vector<StepTerm>& terms) {
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
                  std::isnan(norm) ? std::fabs(norm) : norm,  // the sign of a NaN means nothing
                  terms.front().batch->step()),
      0, -1, std::move(rows));
}

// Returns the error of `check` as a message for the other ranks; "" if there is none.
template <class F>
std::string found_by(const F& check) {
  MessageWriter found;
  try {
    check();
  } catch (const NonFiniteLoss& error) {
    found.string(error.what()).int64(error.term()).int64(error.micro()).list(error.rows());
  }
  return found.take();
}

// Throws the error of a rank that found_by returned as a message.
void throw_found(const std::string& message, int64_t rank, int64_t ranks) {
  if (message.empty()) return;
  MessageReader in(message);
  const std::string text = fmt::format("rank {} of {}: {}", rank, ranks, in.string());
  const int64_t term = in.int64(), micro = in.int64();
  throw NonFiniteLoss(text, term, micro, in.list<int64_t>());
}

}  // namespace

StepGradient::StepGradient(AdamW* adamw, const StepOptions& options)
    : options_(options), adamw_(adamw), ranks_(adamw == nullptr ? nullptr : options.ranks) {
  if (adamw == nullptr) return;
  sources_ = trained_sources(*adamw);
  experts_ = ExpertBalance(*adamw);
}

void StepGradient::accumulate(const std::vector<StepTerm>& terms,
                              const std::vector<UnitTotals>& totals) {
  // Before any backward: f must be constant over the whole step.
  experts_.count(terms, options_.poll, ranks_);
  const std::vector<WorkItem> items = work_items(terms, adamw_ != nullptr);
  const size_t size = ranks_ == nullptr ? 1 : static_cast<size_t>(ranks_->size());
  const size_t rank = ranks_ == nullptr ? 0 : static_cast<size_t>(ranks_->rank());
  std::exception_ptr failure;
  const auto compute = [&](const WorkItem& item) {
    try {
      if (!failure) accumulate_item(item, terms, totals);
    } catch (...) {
      if (ranks_ == nullptr) throw;
      failure = std::current_exception();
    }
  };
  // Ranks meet once a step, not once an item, so one that failed still takes part in the exchanges
  // of the others' items.
  agree(ranks_, "the items of a step", [&] {
    for (size_t first = 0; first < items.size(); first += size) {
      // The last ranks may have no item; they still take part in the collectives.
      const WorkItem* const own = first + rank < items.size() ? &items[first + rank] : nullptr;
      // A dry step exchanges nothing.
      if (adamw_ != nullptr) {
        adamw_->begin_exchange({
            .count = static_cast<int64_t>(std::min(size, items.size() - first)),
            // A single item on a single process needs no separate sum.
            .one_backward = own == nullptr || own->prefix == nullptr ||
                            (items.size() == 1 && ranks_ == nullptr),
            .last = first + size >= items.size(),
        });
      }
      if (own != nullptr) compute(*own);
      if (adamw_ != nullptr) adamw_->end_exchange();
    }
    if (failure) std::rethrow_exception(failure);
  });
}

MetricSums::ReadSums StepGradient::read(const std::vector<StepTerm>& terms,
                                        const at::Tensor& grad_norm, RankCounts& counts) {
  if (ranks_ == nullptr) return checked(sums_.read(grad_norm), terms);
  MessageWriter own;
  own.float64(counts.flops)
      .float64(counts.recomputed)
      .float64(loss_weight_)
      .int64(interrupt_signal());
  own.string(experts_.message());
  MetricSums::ReadSums read = sums_.read(grad_norm, ranks_, own.take());
  counts = {};
  loss_weight_ = 0;
  std::vector<std::string> routing;
  int64_t signal_number = 0;
  for (const std::string& note : read.notes) {
    MessageReader in(note);
    counts.flops += in.float64();
    counts.recomputed += in.float64();
    loss_weight_ += in.float64();
    if (const int64_t raised = in.int64(); raised != 0) signal_number = raised;
    routing.emplace_back(in.string());
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

MetricSums::ReadSums StepGradient::checked(MetricSums::ReadSums read,
                                           const std::vector<StepTerm>& terms) const {
  for (const MetricSums::MicroLoss& loss : read.losses) {
    // Checked after the backward on purpose: a test per micro-batch would sync with the device
    // each time.
    if (!std::isfinite(loss.value)) check_loss(loss);
  }
  if (!std::isfinite(read.extra)) {
    check_gradients();
    throw bad_gradient(read.extra, terms);
  }
  return read;
}

// Throws NonFiniteLoss on every rank, if a value of this micro-batch's losses is not finite.
void StepGradient::check_loss(const MetricSums::MicroLoss& loss) const {
  if (ranks_ == nullptr) return check_own_loss(loss.micro);
  const bool own = loss.rank == ranks_->rank();
  const std::string found = own ? found_by([&] { check_own_loss(loss.micro); }) : "";
  throw_found(ranks_->broadcast("a loss that is not finite", found, loss.rank), loss.rank,
              ranks_->size());
}

void StepGradient::check_own_loss(int64_t number) const {
  for (const MicroLosses& own : losses_) {
    if (own.number == number) check_finite(own.losses, *own.micro, own.term, own.micro_count);
  }
}

// Throws NonFiniteLoss on every rank, if the gradient of a log-prob is not finite on one.
void StepGradient::check_gradients() const {
  if (ranks_ == nullptr) return check_own_gradients();
  const std::vector<std::string> found =
      ranks_->gather("a gradient that is not finite", found_by([&] { check_own_gradients(); }));
  for (size_t r = 0; r < found.size(); ++r) {
    throw_found(found[r], static_cast<int64_t>(r), ranks_->size());
  }
}

void StepGradient::check_own_gradients() const {
  for (const MicroLosses& own : losses_) {
    check_finite(own.logprob_gradients, *own.micro, own.term, own.micro_count);
  }
}

// Computes a shared prefix with the first of its micro-batches, and its gradient after the last.
void StepGradient::accumulate_item(const WorkItem& item, const std::vector<StepTerm>& terms,
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

void StepGradient::add(MicroBatch& micro, int64_t number, const std::vector<StepTerm>& terms,
                       size_t i, const UnitTotals& totals) {
  if (options_.poll) options_.poll();
  // Every micro-batch has its own seed, so that a resumed run draws the same numbers.
  at::manual_seed(philox_u64(micro.info().seed, kStreamMicro,
                             static_cast<uint64_t>(micro.info().step),
                             static_cast<uint64_t>(number)));
  ObjectiveResult result = terms[i].objective(micro);
  check_result(result, micro);
  for (const auto& [unit, loss] : result.losses) {
    loss_weight_ += std::fabs(terms[i].weight) * totals.at(unit);
  }
  const WeightedLoss loss = weighted_loss(result, micro, totals, terms[i].weight);
  // An empty micro-batch has no graph.
  if (!loss.graph.requires_grad() && micro.token_count() > 0) {
    throw BackwardError(
        "the loss does not depend on the trained weights: it has no gradient; compute it from "
        "policy:logprob or policy:token_logprob, and detach only what is constant");
  }
  const at::Tensor balance = experts_.share(micro, number);
  const at::Tensor total = balance.defined() ? loss.graph.add(balance) : loss.graph;
  micro.retain_logprob_gradients();
  if (total.requires_grad()) run_backward(total);
  sums_.begin(number);
  sums_.add_loss(loss.value);
  sums_.add_source_losses(result, micro, static_cast<int64_t>(i), terms[i].weight);
  sums_.add_metrics(result, micro, static_cast<int64_t>(i));
  sums_.add_scored(micro, sources_);
  // Values are held for the message of a non-finite loss; graphs and metrics are freed now.
  result.metrics.clear();
  for (auto& unit_loss : result.losses) unit_loss.second = unit_loss.second.detach();
  losses_.push_back({std::move(result), micro.logprob_gradients(), &micro, number,
                     static_cast<int64_t>(i), terms[i].batch->micros().size()});
  // One graph at a time: this bounds the memory of a step by that of a micro-batch.
  micro.close();
}

}  // namespace xrun
