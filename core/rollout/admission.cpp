// Waiting sequences are admitted in order, as far as batch and memory allow. Their prompts are
// computed as packs of at most prefill_tokens, each once for all samples of its request: the others
// fork its slot. A longer prompt is computed in chunks, each of which sees the keys of the earlier
// ones. A chunk has the bits of one forward over the whole prompt: a token's keys and sums are the
// same in a pack and after a filled slot (kv_cache.h), and RoPE takes the frequencies of the whole
// prompt.

#include <algorithm>
#include <utility>

#include "core/model/model.h"
#include "core/rollout/decoding.h"

namespace xrun {

// Returns the tokens that the slot of a sequence may hold when it is finished.
int64_t Sampler::Decoding::capacity(const QueuedSequence& sequence) const {
  const int64_t tokens = sequence.token_count(), prompt = sequence.request->prompt_length();
  const int64_t more = prompt + sequence.request->spec.max_new_tokens - tokens;
  return tokens + std::min(model_.config().max_length - tokens, std::max(more, int64_t{0}));
}

// Returns true if a sequence with `shared` tokens in the cache can start. To make room it may evict
// held sequences, but not `wanted`.
bool Sampler::Decoding::has_room(const QueuedSequence& sequence, int64_t shared,
                                 SequenceSlots::Held wanted) {
  if (active_ >= options_.batch) return false;
  // A sequence alone is admitted whatever its cache needs, or the queue would never move.
  return slots_.make_room(slots_.cache().slot_bytes(capacity(sequence), shared), wanted) ||
         active_ == 0;
}

// Moves the front of the queue into a slot: its own or a new one.
QueuedSequence& Sampler::Decoding::start(int64_t slot) {
  QueuedSequence& s = *waiting_.front();
  waiting_.pop_front();
  s.slot = slot;
  ++active_;
  return s;
}

// Starts sequences from the front of the queue; returns false if there is no room for one.
bool Sampler::Decoding::admit() {
  if (waiting_.empty()) return false;
  return prompt_is_ready() ? admit_samples() : admit_pack();
}

bool Sampler::Decoding::prompt_is_ready() const {
  return !waiting_.empty() && waiting_.front()->request == prompt_.request &&
         waiting_.front()->is_fresh();
}

// Admits samples whose prompt was computed for an earlier sample.
bool Sampler::Decoding::admit_samples() {
  std::vector<PendingDraw> draws;
  while (prompt_is_ready()) {
    const QueuedSequence& next = *waiting_.front();
    const int64_t length = next.request->prompt_length();
    if (!has_room(next, length, slots_.none())) break;
    QueuedSequence& s = start(slots_.open(capacity(next), length));
    slots_.cache().fork(prompt_.slot, s.slot);
    counters_.reused += length;
    draws.push_back({&s, 0, length});
  }
  if (draws.empty()) return false;
  const at::Tensor hidden = prompt_.hidden;
  if (!prompt_is_ready()) drop_prompt();
  draw_each(hidden, draws);
  return true;
}

bool Sampler::Decoding::sibling_waits(const QueuedSequence& sequence) const {
  return !waiting_.empty() && waiting_.front()->request == sequence.request &&
         waiting_.front()->is_fresh();
}

// Computes prompts as one pack, each once for all of its samples that have room.
bool Sampler::Decoding::admit_pack() {
  AppendedTokens pack;
  std::vector<PendingDraw> draws;
  std::vector<std::pair<int64_t, int64_t>> forks;  // slots: from, to
  const PendingDraw* unfinished = nullptr;         // its request has samples that must wait
  while (!waiting_.empty() && !prompt_is_ready() && unfinished == nullptr) {
    const QueuedSequence& next = *waiting_.front();
    const std::vector<int32_t> tokens = next.tokens();
    const auto length = static_cast<int64_t>(tokens.size());
    const auto held = slots_.find(tokens);
    const int64_t reused = held == slots_.none() ? 0 : std::ssize(held->ids);
    if (pack.size() > 0 && pack.size() + length - reused > options_.prefill_tokens) break;
    if (!has_room(next, reused, held)) break;
    QueuedSequence& s = start(held == slots_.none() ? slots_.open(capacity(next))
                                                    : slots_.take(held, capacity(next)));
    counters_.reused += reused;
    append_prompt(s, tokens, reused, pack);
    draws.push_back({&s, pack.size() - 1, length});
    if (!s.is_fresh()) continue;
    while (sibling_waits(s) && has_room(*waiting_.front(), length, slots_.none())) {
      QueuedSequence& sibling = start(slots_.open(capacity(*waiting_.front()), length));
      forks.emplace_back(s.slot, sibling.slot);
      counters_.reused += length;
      draws.push_back({&sibling, pack.size() - 1, length});
    }
    if (sibling_waits(s)) unfinished = &draws.back();
  }
  if (pack.size() == 0) return false;
  const at::Tensor hidden = forward(pack);
  for (const auto& [from, to] : forks) slots_.cache().fork(from, to);
  if (unfinished != nullptr) share_prompt(*unfinished, hidden);
  draw_each(hidden, draws);
  return true;
}

// Adds the tokens without keys to the pack. More than prefill_tokens of them are cut into chunks:
// all but the last are computed here, each in its own forward. The pack is then empty, since so
// long a sequence never joins others.
void Sampler::Decoding::append_prompt(QueuedSequence& sequence, const std::vector<int32_t>& tokens,
                                      int64_t computed, AppendedTokens& pack) {
  const auto length = static_cast<int64_t>(tokens.size());
  const auto from = [&](int64_t first) {
    return std::span(tokens).subspan(static_cast<size_t>(first));
  };
  for (; length - computed > options_.prefill_tokens; computed += options_.prefill_tokens) {
    AppendedTokens chunk;
    chunk.append(sequence, from(computed).first(static_cast<size_t>(options_.prefill_tokens)),
                 computed, length);
    forward(chunk);
    check_stop();
  }
  pack.append(sequence, from(computed), computed, length);
}

void Sampler::Decoding::share_prompt(const PendingDraw& sample, const at::Tensor& hidden) {
  prompt_ = {sample.sequence->request, slots_.open(sample.position, sample.position),
             hidden.narrow(0, sample.row, 1).clone()};
  slots_.cache().fork(sample.sequence->slot, prompt_.slot);
}

}  // namespace xrun
