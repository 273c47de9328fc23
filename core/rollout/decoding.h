#pragma once
// The state of a Sampler: the queue, the cache, and the sequences in progress. Only its own sources
// include this.
//
// A sequence is one sample of a request. It is waiting, then running in a slot of the cache, then
// finished. In a running sequence all tokens but the newest have their keys in the slot:
//   length of the slot = prompt + ids - 1.
// A sequence whose keys cannot be used any more (an update, new RoPE frequencies) gives up its slot
// and waits again, at the front; its keys are then computed like those of a prompt.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/rollout/queued_request.h"
#include "core/rollout/sampler.h"
#include "core/rollout/sequence_slots.h"

namespace xrun {

// New tokens of several sequences, for one forward.
struct AppendedTokens {
  std::vector<QueuedSequence*> sequences;
  std::vector<int64_t> slots, tokens, positions;
  std::vector<int32_t> cu_seqlens = {0};
  std::vector<int32_t> lengths;  // by sequence: its tokens, which choose the RoPE frequencies

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
  // Appends `ids` of a sequence, the first at `position`, with the RoPE frequencies of `length`.
  void append(QueuedSequence& sequence, std::span<const int32_t> ids, int64_t position,
              int64_t length);
};

// The credit of drafts: a draft token costs kDraftCost of the time to decode one (measured,
// docs/numbers.md), and a right one saves the time to decode one. Without credit, drafts wait for
// the next update, so wrong drafts cost little and right ones are all tried.
inline constexpr double kDraftCost = 0.55, kTrialCredit = 32, kMostCredit = 1024;

// A token to draw: from row `row` of the hidden states, at `position` of the sequence.
struct PendingDraw {
  QueuedSequence* sequence;
  int64_t row, position;
};

class Sampler::Decoding {
 public:
  Decoding(Model& model, const SamplerOptions& options);

  // The members of Sampler.
  Ticket submit(SampleRequest spec);
  bool step();
  std::optional<SampledGroup> poll();
  void cancel(Ticket ticket);
  void cancel_all();
  void release(Ticket ticket, int64_t sample) { slots_.release(ticket, sample); }
  int64_t bytes() const { return slots_.cache().bytes(); }
  SamplerCounters counters() const;

 private:
  // A computed prompt whose request has samples that wait for room; they need no forward of it.
  struct SharedPrompt {
    const QueuedRequest* request = nullptr;
    int64_t slot = -1;
    at::Tensor hidden = {};  // [1, D] of its last token
  };

  // ---- the queue (sampler.cpp)

  void check_stop() const;  // calls the poll
  void refresh();           // after an update: no older key is read
  void wait_again(const std::vector<QueuedSequence*>& sequences);
  void close(QueuedSequence& sequence);
  void drop_prompt();

  // ---- waiting sequences get a slot and their first token (admission.cpp)

  int64_t capacity(const QueuedSequence& sequence) const;
  bool has_room(const QueuedSequence& sequence, int64_t shared, SequenceSlots::Held wanted);
  QueuedSequence& start(int64_t slot);
  bool admit();
  bool prompt_is_ready() const;
  bool admit_samples();
  bool admit_pack();
  bool sibling_waits(const QueuedSequence& sequence) const;
  void append_prompt(QueuedSequence& sequence, const std::vector<int32_t>& tokens, int64_t computed,
                     AppendedTokens& pack);
  void share_prompt(const PendingDraw& sample, const at::Tensor& hidden);

  // ---- running sequences get their next tokens (decoding.cpp)

  void pack_weights();
  bool crosses(const QueuedSequence& sequence) const;
  void decode();
  at::Tensor forward(const AppendedTokens& pack);
  void draw_each(const at::Tensor& hidden, const std::vector<PendingDraw>& draws,
                 const std::vector<int64_t>& inputs = {});
  std::vector<DrawnToken> draw(const at::Tensor& hidden, const std::vector<PendingDraw>& draws);
  bool take(QueuedSequence& sequence, const DrawnToken& drawn);
  void finish(QueuedSequence& sequence);

  Model& model_;
  const SamplerOptions options_;
  int64_t version_ = -1;  // the update count and the replacements of the keys in the cache
  int64_t replaced_ = 0;
  int64_t steps_ = 0;  // of decoding, at this version
  double draft_credit_ = kTrialCredit;
  bool pack_is_refused_ = false;  // for lack of memory
  SequenceSlots slots_;
  SamplerCounters counters_;
  std::deque<std::unique_ptr<QueuedRequest>> requests_;  // not polled yet, by ticket
  Ticket next_ticket_ = 0;
  std::deque<QueuedSequence*> waiting_;
  std::vector<QueuedSequence*> running_;
  int64_t active_ = 0;  // sequences with a slot
  SharedPrompt prompt_;
};

}  // namespace xrun
