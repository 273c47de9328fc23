// A sequence is one sample of a request. It is waiting, then running in a slot of the cache, then
// finished. In a running sequence all tokens but the newest have their keys in the slot:
//   length of the slot = prompt + ids - 1.
// A draft is verified by appending it behind the newest token. Row i of the forward then draws
// token i under its own key, and its input was right if all rows before drew the draft's tokens;
// the keys behind the first wrong input are dropped. A sequence whose keys cannot be used any more
// (an update, new RoPE frequencies) gives up its slot and waits again, at the front; its keys are
// then computed like those of a prompt.

#include "core/rollout/sampler.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/index_select.h>

#include <algorithm>
#include <deque>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/model/model.h"
#include "core/model/ops/rope.h"
#include "core/rollout/queued_request.h"
#include "core/rollout/sampler_limits.h"
#include "core/rollout/sampler_weights.h"
#include "core/rollout/sequence_slots.h"

namespace xrun {

namespace {

using Ids = std::vector<int32_t>;

// New tokens of several sequences, for one forward.
struct AppendedTokens {
  std::vector<QueuedSequence*> sequences;
  std::vector<int64_t> slots, tokens, positions;
  std::vector<int32_t> cu_seqlens = {0};

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
  void append(QueuedSequence& sequence, std::span<const int32_t> ids, int64_t position) {
    sequences.push_back(&sequence);
    slots.push_back(sequence.slot);
    for (const int32_t id : ids) {
      tokens.push_back(id);
      positions.push_back(position++);
    }
    cu_seqlens.push_back(static_cast<int32_t>(tokens.size()));
  }
};

// A token to draw: from row `row` of the hidden states, at `position` of the sequence.
struct PendingDraw {
  QueuedSequence* sequence;
  int64_t row, position;
};

}  // namespace

class Sampler::Decoding {
 public:
  Decoding(Model& model, const SamplerOptions& options)
      : model_(model),
        options_(options),
        weights_(model),
        slots_(model.config(), model.compute_type(), options.cache_mb) {
    XRUN_CHECK(model.device().is_cpu(), "a model on {} cannot decode; take its host_copy()",
               model.device().str());
    XRUN_CHECK(options.batch >= 1, "batch is {}, it must be at least 1", options.batch);
  }

  Ticket submit(SampleRequest spec) {
    auto request = std::make_unique<QueuedRequest>(model_.config(), next_ticket_, std::move(spec));
    for (QueuedSequence& sequence : request->sequences) {
      if (sequence.made.finish.empty()) waiting_.push_back(&sequence);
    }
    requests_.push_back(std::move(request));
    return next_ticket_++;
  }

  bool step() {
    const at::NoGradGuard no_grad;
    refresh();
    if (!running_.empty()) {
      check_interrupt();
      decode();
    }
    do {
      check_interrupt();
    } while (admit());
    return !running_.empty() || !waiting_.empty();
  }

  std::optional<SampledGroup> poll() {
    if (requests_.empty() || requests_.front()->unfinished > 0) return std::nullopt;
    SampledGroup group{requests_.front()->ticket, {}};
    for (QueuedSequence& s : requests_.front()->sequences) {
      s.take_routes();
      group.samples.push_back(std::move(s.made));
    }
    requests_.pop_front();
    return group;
  }

  void cancel(Ticket ticket) {
    if (requests_.empty() || ticket < requests_.front()->ticket) return;
    const uint64_t index = ticket - requests_.front()->ticket;
    if (index >= requests_.size()) return;
    QueuedRequest& request = *requests_[index];
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

  void cancel_all() {
    for (size_t r = 0; r < requests_.size(); ++r) cancel(requests_[r]->ticket);
  }

  void release_held() { slots_.release_held(); }

  int64_t bytes() const { return slots_.cache().bytes(); }
  int64_t request_bytes(const SampleRequest& spec) const {
    const auto prompt = static_cast<int64_t>(spec.prompt.size());
    const int64_t all = capacity(prompt, spec.max_new_tokens);
    const KvCache& cache = slots_.cache();
    return cache.slot_bytes(all) + (spec.samples - 1) * cache.slot_bytes(all, prompt);
  }
  SamplerCounters counters() const {
    SamplerCounters all = counters_;
    all.evicted = slots_.evicted();
    all.packed = weights_.times_packed();
    return all;
  }

 private:
  // The prompt of a request of which some samples wait for room: later ones need no forward.
  struct SharedPrompt {
    const QueuedRequest* request = nullptr;
    int64_t slot = -1;
    at::Tensor hidden = {};  // [1, D] of its last token
  };

  // Tokens in the slot of a sequence that has `tokens` now and may get `more`.
  int64_t capacity(int64_t tokens, int64_t more) const {
    return tokens + std::min(model_.config().max_length - tokens, std::max(more, int64_t{0}));
  }
  int64_t capacity(const QueuedSequence& s) const {
    const int64_t tokens = s.token_count();
    return capacity(tokens, s.request->prompt_length() + s.request->spec.max_new_tokens - tokens);
  }

  // ---- keys of other weights

  void refresh() {
    if (!weights_.refresh()) return;
    counters_.stale += slots_.release_held() + std::ssize(running_);
    drop_prompt();
    wait_again(std::exchange(running_, {}));
  }

  // Gives up the slots of sequences, which are then admitted before all others.
  void wait_again(const std::vector<QueuedSequence*>& sequences) {
    for (QueuedSequence* const s : sequences) close(*s);
    waiting_.insert(waiting_.begin(), sequences.begin(), sequences.end());
  }

  // True if the next token moves a sequence to the long frequencies (longrope). All of its keys are
  // then computed again, as in the training forward.
  bool crosses(const QueuedSequence& s) const {
    const RopeConfig& rope = model_.config().rope;
    return rope.type == RopeConfig::Type::kLongrope &&
           slots_.cache().length(s.slot) == rope.original_max_length;
  }

  // ---- slots

  void close(QueuedSequence& s) {
    slots_.close(std::exchange(s.slot, -1));
    --active_;
  }

  void drop_prompt() {
    if (prompt_.request != nullptr) slots_.close(prompt_.slot);
    prompt_ = {};
  }

  // Returns whether a sequence that finds `shared` tokens in the cache can start. Only held
  // sequences other than `wanted` make room.
  bool has_room(const QueuedSequence& s, int64_t shared, SequenceSlots::Held wanted) {
    if (active_ >= options_.batch) return false;
    // A sequence alone is admitted whatever its cache needs, or the queue would never move.
    return slots_.make_room(slots_.cache().slot_bytes(capacity(s), shared), wanted) || active_ == 0;
  }

  // The front of the queue leaves it for a slot, its own or a new one.
  QueuedSequence& start(int64_t slot) {
    QueuedSequence& s = *waiting_.front();
    waiting_.pop_front();
    s.slot = slot;
    ++active_;
    return s;
  }

  // ---- admission

  // Starts some of the first sequences of the queue; returns false if there is no room for one.
  bool admit() {
    if (waiting_.empty()) return false;
    return prompt_is_ready() ? admit_samples() : admit_pack();
  }

  bool prompt_is_ready() const {
    return !waiting_.empty() && waiting_.front()->request == prompt_.request &&
           waiting_.front()->is_fresh();
  }

  // Samples whose prompt was computed for an earlier sample.
  bool admit_samples() {
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

  // Computes prompts as one pack, each once for all of its samples that have room.
  bool admit_pack() {
    AppendedTokens pack;
    std::vector<PendingDraw> draws;
    std::vector<std::pair<int64_t, int64_t>> forks;  // slots: from, to
    const PendingDraw* unfinished = nullptr;         // its request has samples that must wait
    while (!waiting_.empty() && !prompt_is_ready() && unfinished == nullptr) {
      const QueuedSequence& next = *waiting_.front();
      const Ids tokens = next.tokens();
      const auto length = static_cast<int64_t>(tokens.size());
      const auto held = slots_.find(tokens);
      const int64_t reused = held == slots_.none() ? 0 : std::ssize(held->ids);
      if (pack.size() > 0 && pack.size() + length - reused > kPrefillTokens) break;
      if (!has_room(next, reused, held)) break;
      QueuedSequence& s = start(held == slots_.none() ? slots_.open(capacity(next))
                                                      : slots_.take(held, capacity(next)));
      pack.append(s, std::span(tokens).subspan(static_cast<size_t>(reused)), reused);
      counters_.reused += reused;
      draws.push_back({&s, pack.size() - 1, length});
      if (!s.is_fresh()) continue;
      const auto sibling_waits = [&] {
        return !waiting_.empty() && waiting_.front()->request == s.request &&
               waiting_.front()->is_fresh();
      };
      while (sibling_waits() && has_room(*waiting_.front(), length, slots_.none())) {
        QueuedSequence& sibling = start(slots_.open(capacity(*waiting_.front()), length));
        forks.emplace_back(s.slot, sibling.slot);
        counters_.reused += length;
        draws.push_back({&sibling, pack.size() - 1, length});
      }
      if (sibling_waits()) unfinished = &draws.back();
    }
    if (pack.size() == 0) return false;
    const at::Tensor hidden = forward(pack);
    for (const auto& [from, to] : forks) slots_.cache().fork(from, to);
    if (unfinished != nullptr) share_prompt(*unfinished, hidden);
    draw_each(hidden, draws);
    return true;
  }

  void share_prompt(const PendingDraw& sample, const at::Tensor& hidden) {
    prompt_ = {sample.sequence->request, slots_.open(sample.position, sample.position),
               hidden.narrow(0, sample.row, 1).clone()};
    slots_.cache().fork(sample.sequence->slot, prompt_.slot);
  }

  // ---- decoding

  // One token for every running sequence, and those of its draft.
  void decode() {
    AppendedTokens pack;
    std::vector<PendingDraw> draws;
    std::vector<QueuedSequence*> crossing;
    const int64_t most_draft = kPrefillTokens / std::ssize(running_) - 1;
    for (QueuedSequence* const s : std::exchange(running_, {})) {
      if (crosses(*s)) {
        crossing.push_back(s);
        continue;
      }
      const std::span<const int32_t> draft = s->draft(model_.config(), most_draft);
      Ids ids = {s->made.ids.back()};
      ids.insert(ids.end(), draft.begin(), draft.end());
      for (int64_t i = 0; i < std::ssize(ids); ++i) {
        draws.push_back({s, pack.size() + i, s->token_count() + i});
      }
      pack.append(*s, ids, slots_.cache().length(s->slot));
      counters_.drafted += std::ssize(draft);
    }
    wait_again(crossing);
    weights_.count_step();
    if (!draws.empty()) draw_each(forward(pack), draws, pack.tokens);
  }

  at::Tensor forward(const AppendedTokens& pack) {
    counters_.computed += pack.size();
    slots_.cache().use_slots(pack.slots);
    const bool records =
        model_.config().moe.experts > 0 &&
        std::any_of(pack.sequences.begin(), pack.sequences.end(),
                    [](const QueuedSequence* s) { return s->request->spec.record_routes; });
    std::vector<at::Tensor> routes;
    const at::Tensor hidden = weights_.forward({.tokens = int64_tensor(pack.tokens),
                                                .position_ids = int64_tensor(pack.positions),
                                                .cu_seqlens = pack.cu_seqlens},
                                               slots_.cache(), records ? &routes : nullptr);
    for (size_t i = 0; records && i < pack.sequences.size(); ++i) {
      const int64_t begin = pack.cu_seqlens[i], end = pack.cu_seqlens[i + 1];
      record_routes(*pack.sequences[i], routes, begin, end,
                    pack.positions[static_cast<size_t>(begin)]);
    }
    return hidden;
  }

  // Draws the next tokens of several sequences, whose draws adjoin.
  //   inputs  by row, where a sequence has several draws: its draft
  void draw_each(const at::Tensor& hidden, const std::vector<PendingDraw>& draws,
                 const std::vector<int64_t>& inputs = {}) {
    const std::vector<DrawnToken> drawn = draw(hidden, draws);
    for (size_t first = 0, end; first < draws.size(); first = end) {
      QueuedSequence& s = *draws[first].sequence;
      end = first + 1;
      while (end < draws.size() && draws[end].sequence == &s) ++end;
      size_t next = first;
      bool continues = take(s, drawn[next++]);
      // A row counts if its input is the token that was drawn for it.
      while (continues && next < end &&
             inputs[static_cast<size_t>(draws[next].row)] == drawn[next - 1].id) {
        continues = take(s, drawn[next++]);
        ++counters_.accepted;
      }
      s.adapt_window(static_cast<int64_t>(end - first) - 1, static_cast<int64_t>(next - first) - 1);
      slots_.cache().truncate(s.slot, s.token_count() - 1);
      s.routes.truncate(std::ssize(s.made.ids) - 1);
      if (continues) {
        running_.push_back(&s);
      } else {
        finish(s);
      }
    }
    // Sequences that share blocks adjoin, so that attention reads those once (kv_cache.h).
    std::sort(running_.begin(), running_.end(), submitted_before);
  }

  // Requests may differ in their options; rows of equal ones are drawn together.
  std::vector<DrawnToken> draw(const at::Tensor& hidden, const std::vector<PendingDraw>& draws) {
    std::vector<DrawnToken> drawn;
    for (size_t begin = 0, end; begin < draws.size(); begin = end) {
      const SamplingOptions& options = draws[begin].sequence->request->spec.sampling;
      std::vector<int64_t> rows;
      std::vector<DrawKey> keys;
      for (end = begin; end < draws.size() && std::ssize(rows) < kHeadRows; ++end) {
        const QueuedSequence& s = *draws[end].sequence;
        if (s.request->spec.sampling != options) break;
        rows.push_back(draws[end].row);
        // Keyed by position and not by step, so that a token does not depend on the batch.
        keys.push_back({s.request->spec.prompt_key,
                        s.request->spec.first_sample + static_cast<uint32_t>(s.sample),
                        static_cast<uint64_t>(draws[end].position)});
      }
      const at::Tensor logits = weights_.logits(at::index_select(hidden, 0, int64_tensor(rows)));
      const std::vector<DrawnToken> some = draw_tokens(logits, keys, options);
      drawn.insert(drawn.end(), some.begin(), some.end());
    }
    return drawn;
  }

  // Adds a token to a sequence; returns whether it continues.
  bool take(QueuedSequence& s, const DrawnToken& drawn) {
    const SampleRequest& spec = s.request->spec;
    const int64_t position = s.token_count();
    Generation& made = s.made;
    if (made.ids.empty()) made.first_version = weights_.version();
    made.last_version = weights_.version();
    made.ids.push_back(drawn.id);
    made.logprobs.push_back(drawn.logprob);
    if (spec.sampling.truncates()) made.logprobs_kept.push_back(drawn.logprob_kept);
    ++counters_.tokens;
    bool stopped =
        std::find(spec.stop_ids.begin(), spec.stop_ids.end(), drawn.id) != spec.stop_ids.end();
    if (spec.on_token) stopped |= spec.on_token(s.sample, drawn.id);
    const bool full =
        std::ssize(made.ids) >= spec.max_new_tokens || position >= model_.config().max_length;
    if (stopped || full) made.finish = stopped ? "stop" : "length";
    return !stopped && !full;
  }

  // Holds or frees the keys of a finished sequence.
  void finish(QueuedSequence& s) {
    --s.request->unfinished;
    if (!s.request->spec.hold) return close(s);
    Ids tokens = s.tokens();
    tokens.pop_back();  // the newest token has no keys
    slots_.hold(std::exchange(s.slot, -1), std::move(tokens));
    --active_;
  }

  Model& model_;
  const SamplerOptions options_;
  SamplerWeights weights_;
  SequenceSlots slots_;
  SamplerCounters counters_;
  std::deque<std::unique_ptr<QueuedRequest>> requests_;  // not polled yet, by ticket
  Ticket next_ticket_ = 0;
  std::deque<QueuedSequence*> waiting_;
  std::vector<QueuedSequence*> running_;
  int64_t active_ = 0;  // sequences with a slot
  SharedPrompt prompt_;
};

Sampler::Sampler(Model& model, const SamplerOptions& options)
    : decoding_(std::make_unique<Decoding>(model, options)) {}
Sampler::~Sampler() = default;

Ticket Sampler::submit(SampleRequest request) { return decoding_->submit(std::move(request)); }
bool Sampler::step() { return decoding_->step(); }
std::optional<SampledGroup> Sampler::poll() { return decoding_->poll(); }
void Sampler::cancel(Ticket ticket) { decoding_->cancel(ticket); }
void Sampler::cancel_all() { decoding_->cancel_all(); }
void Sampler::release_held() { decoding_->release_held(); }
int64_t Sampler::bytes() const { return decoding_->bytes(); }
int64_t Sampler::request_bytes(const SampleRequest& request) const {
  return decoding_->request_bytes(request);
}
SamplerCounters Sampler::counters() const { return decoding_->counters(); }

}  // namespace xrun
