// The queue: requests wait in order, leave in order, and are put back in front when an update has
// made their keys unreadable. decoding.h has the states of a sequence.

#include "core/rollout/sampler.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/model/model.h"
#include "core/rollout/decoding.h"

namespace xrun {

Sampler::Decoding::Decoding(Model& model, const SamplerOptions& options)
    : model_(model),
      options_(options),
      slots_(model.config(), model.compute_type(), model.device(), options.cache_mb) {
  XRUN_CHECK(options.batch >= 1, "batch is {}, wanted at least 1", options.batch);
  XRUN_CHECK(options.prefill_tokens >= 1, "prefill_tokens is {}, wanted at least 1",
             options.prefill_tokens);
}

Ticket Sampler::Decoding::submit(SampleRequest spec) {
  auto request = std::make_unique<QueuedRequest>(model_.config(), next_ticket_, std::move(spec));
  for (QueuedSequence& sequence : request->sequences) {
    // Answers of no tokens are finished already.
    if (sequence.made.finish.empty()) waiting_.push_back(&sequence);
  }
  requests_.push_back(std::move(request));
  return next_ticket_++;
}

bool Sampler::Decoding::step() {
  const at::NoGradGuard no_grad;
  refresh();
  if (!running_.empty()) {
    check_stop();
    decode();
  }
  do {
    check_stop();
  } while (admit());
  return !running_.empty() || !waiting_.empty();
}

std::optional<SampledGroup> Sampler::Decoding::poll() {
  // In order of submission: results must not depend on which answer happens to end first.
  if (requests_.empty() || requests_.front()->unfinished > 0) return std::nullopt;
  SampledGroup group{requests_.front()->ticket, {}};
  for (QueuedSequence& s : requests_.front()->sequences) {
    s.take_routes();
    group.samples.push_back(std::move(s.made));
  }
  requests_.pop_front();
  return group;
}

void Sampler::Decoding::cancel(Ticket ticket) {
  if (requests_.empty() || ticket < requests_.front()->ticket) return;  // polled already
  const uint64_t index = ticket - requests_.front()->ticket;            // tickets are consecutive
  if (index >= requests_.size()) return;
  QueuedRequest& request = *requests_[index];
  // Its other samples would have forked from this slot.
  if (prompt_.request == &request) drop_prompt();
  for (QueuedSequence& s : request.sequences) {
    if (!s.made.finish.empty()) continue;
    std::erase(waiting_, &s);
    std::erase(running_, &s);
    if (s.slot >= 0) close(s);
    s.made.finish = "interrupted";
    --request.unfinished;
  }
}

void Sampler::Decoding::cancel_all() {
  for (size_t r = 0; r < requests_.size(); ++r) cancel(requests_[r]->ticket);
}

SamplerCounters Sampler::Decoding::counters() const {
  SamplerCounters all = counters_;
  all.evicted = slots_.evicted();
  return all;
}

void Sampler::Decoding::check_stop() const {
  if (options_.poll) {
    options_.poll();
  } else {
    check_interrupt();
  }
}

// A restored checkpoint may have the update count of the keys in the cache, so replacements of the
// weights are compared too.
void Sampler::Decoding::refresh() {
  if (version_ == model_.update_count && replaced_ == model_.times_replaced()) return;
  version_ = model_.update_count;
  replaced_ = model_.times_replaced();
  steps_ = 0;
  // Drafts that ran out of credit get another trial under the new weights.
  draft_credit_ = std::max(draft_credit_, kTrialCredit);
  // Keys of the old weights: everything that reads them is computed again.
  counters_.stale += slots_.release_held() + std::ssize(running_);
  drop_prompt();
  wait_again(std::exchange(running_, {}));
}

// Gives up the slots of sequences, which are then admitted before all others.
void Sampler::Decoding::wait_again(const std::vector<QueuedSequence*>& sequences) {
  for (QueuedSequence* const s : sequences) close(*s);
  waiting_.insert(waiting_.begin(), sequences.begin(), sequences.end());
}

void Sampler::Decoding::close(QueuedSequence& sequence) {
  slots_.close(std::exchange(sequence.slot, -1));
  --active_;
}

// Frees the slot of a computed prompt, from which waiting samples of its request would have forked.
void Sampler::Decoding::drop_prompt() {
  if (prompt_.request != nullptr) slots_.close(prompt_.slot);
  prompt_ = {};
}

Sampler::Sampler(Model& model, const SamplerOptions& options)
    : decoding_(std::make_unique<Decoding>(model, options)) {}
Sampler::~Sampler() = default;

Ticket Sampler::submit(SampleRequest request) { return decoding_->submit(std::move(request)); }
bool Sampler::step() { return decoding_->step(); }
std::optional<SampledGroup> Sampler::poll() { return decoding_->poll(); }
void Sampler::cancel(Ticket ticket) { decoding_->cancel(ticket); }
void Sampler::cancel_all() { decoding_->cancel_all(); }
void Sampler::release(Ticket ticket, int64_t sample) { decoding_->release(ticket, sample); }
int64_t Sampler::bytes() const { return decoding_->bytes(); }
SamplerCounters Sampler::counters() const { return decoding_->counters(); }

}  // namespace xrun
