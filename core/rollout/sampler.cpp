// A sequence is one sample of a request. It is waiting, then running in a slot of the cache, then
// finished. In a running sequence all tokens but the newest have their keys in the slot:
//   length of the slot = prompt + ids - 1.
// A sequence whose keys cannot be used any more (an update, new RoPE frequencies) gives up its slot
// and waits again, at the front; its keys are then computed like those of a prompt.

#include "core/rollout/sampler.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/index_select.h>

#include <algorithm>
#include <deque>
#include <list>
#include <span>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/model/kv_cache.h"
#include "core/model/model.h"
#include "core/model/ops/matrix_product.h"
#include "core/model/ops/scratch.h"

namespace xrun {

namespace {

constexpr int64_t kPrefillTokens = 4096;  // of one forward, to bound its activations
constexpr int64_t kHeadRows = 256;        // of one product with the head, to bound its logits
constexpr int64_t kMegabyte = 1 << 20;
// The ranges of a draw key (sampling.h).
constexpr int64_t kMostSamples = 1 << 20;
constexpr uint64_t kMostPromptKey = (uint64_t{1} << 44) - 1;

using Ids = std::vector<int32_t>;

// The keys of a finished sequence.
struct HeldSequence {
  Ids ids;  // the tokens of the slot
  int64_t slot;
};
using HeldSequences = std::list<HeldSequence>;

// New tokens of several sequences, for one forward.
struct AppendedTokens {
  std::vector<int64_t> slots, tokens, positions;
  std::vector<int32_t> cu_seqlens = {0};

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
  void append(int64_t slot, std::span<const int32_t> ids, int64_t position) {
    slots.push_back(slot);
    for (const int32_t id : ids) {
      tokens.push_back(id);
      positions.push_back(position++);
    }
    cu_seqlens.push_back(static_cast<int32_t>(tokens.size()));
  }
};

}  // namespace

struct QueuedRequest;

// One sample of a request.
struct QueuedSequence {
  QueuedRequest* request;
  int64_t sample;
  Generation made = {};
  int64_t slot = -1;
};

struct QueuedRequest {
  Ticket ticket;
  SampleRequest spec;
  std::vector<QueuedSequence> sequences;
  int64_t unfinished;

  int64_t prompt_length() const { return static_cast<int64_t>(spec.prompt.size()); }
};

namespace {

// A token to draw: from row `row` of the hidden states, at `position` of the sequence.
struct PendingDraw {
  QueuedSequence* sequence;
  int64_t row, position;
};

bool is_fresh(const QueuedSequence& s) { return s.made.ids.empty(); }

// The prompt and the answer so far.
Ids tokens_of(const QueuedSequence& s) {
  Ids tokens = s.request->spec.prompt;
  tokens.insert(tokens.end(), s.made.ids.begin(), s.made.ids.end());
  return tokens;
}

int64_t token_count(const QueuedSequence& s) {
  return s.request->prompt_length() + static_cast<int64_t>(s.made.ids.size());
}

bool submitted_before(const QueuedSequence* a, const QueuedSequence* b) {
  return std::tie(a->request->ticket, a->sample) < std::tie(b->request->ticket, b->sample);
}

}  // namespace

class Sampler::Decoding {
 public:
  Decoding(Model& model, const SamplerOptions& options)
      : model_(model), options_(options), cache_(model.config(), model.compute_type()) {
    XRUN_CHECK(model.device().is_cpu(), "a model on {} cannot decode; take its host_copy()",
               model.device().str());
    XRUN_CHECK(options.batch >= 1, "batch is {}, it must be at least 1", options.batch);
  }

  Ticket submit(SampleRequest spec) {
    check(spec);
    const auto samples = static_cast<size_t>(spec.samples);
    const bool empty = spec.max_new_tokens < 1;
    auto request = std::make_unique<QueuedRequest>(
        QueuedRequest{next_ticket_, std::move(spec), {}, empty ? 0 : static_cast<int64_t>(samples)});
    for (size_t s = 0; s < samples; ++s) {
      request->sequences.push_back({request.get(), static_cast<int64_t>(s)});
      if (empty) request->sequences.back().made.finish = "length";
    }
    for (QueuedSequence& sequence : request->sequences) {
      if (!empty) waiting_.push_back(&sequence);
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

  void release_held() {
    while (!held_.empty()) drop_held(held_.begin());
  }

  int64_t bytes() const { return cache_.bytes(); }
  int64_t request_bytes(const SampleRequest& spec) const {
    const auto prompt = static_cast<int64_t>(spec.prompt.size());
    const int64_t all = capacity(prompt, spec.max_new_tokens);
    return cache_.slot_bytes(all) + (spec.samples - 1) * cache_.slot_bytes(all, prompt);
  }
  const SamplerCounters& counters() const { return counters_; }

 private:
  // The prompt of a request of which some samples wait for room: later ones need no forward.
  struct SharedPrompt {
    const QueuedRequest* request = nullptr;
    int64_t slot = -1;
    at::Tensor hidden = {};  // [1, D] of its last token
  };

  void check(const SampleRequest& spec) const {
    check_prompt(model_.config(), spec.prompt, "the prompt");
    check_sampling(spec.sampling);
    const int64_t most = kMostSamples - int64_t{spec.first_sample};
    XRUN_CHECK(most > 0, "first_sample is {}, wanted 0 to {}", spec.first_sample, kMostSamples - 1);
    XRUN_CHECK(spec.samples >= 1 && spec.samples <= most, "samples is {}, wanted 1 to {}",
               spec.samples, most);
    XRUN_CHECK(spec.prompt_key <= kMostPromptKey, "prompt_key is {}, wanted 0 to {}",
               spec.prompt_key, kMostPromptKey);
  }

  // Slots of a sequence with `tokens` tokens that may take `more`.
  int64_t capacity(int64_t tokens, int64_t more) const {
    return tokens + std::min(model_.config().max_length - tokens, std::max(more, int64_t{0}));
  }
  int64_t capacity(const QueuedSequence& s) const {
    const int64_t tokens = token_count(s);
    return capacity(tokens, s.request->prompt_length() + s.request->spec.max_new_tokens - tokens);
  }

  // ---- keys of other weights

  void refresh() {
    if (version_ == model_.update_count) return;
    version_ = model_.update_count;
    head_ = model_.head_weight().to(at::kFloat).contiguous();
    counters_.stale += static_cast<int64_t>(held_.size() + running_.size());
    release_held();
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
           cache_.length(s.slot) == rope.original_max_length;
  }

  // ---- slots

  int64_t open(int64_t capacity, int64_t shared) {
    if (free_slots_.empty()) free_slots_.push_back(slots_++);
    const int64_t slot = free_slots_.back();
    free_slots_.pop_back();
    cache_.open(slot, capacity, shared);
    return slot;
  }

  void close_slot(int64_t slot) {
    cache_.close(slot);
    free_slots_.push_back(slot);
  }

  void close(QueuedSequence& s) {
    close_slot(std::exchange(s.slot, -1));
    --active_;
  }

  void drop_held(HeldSequences::iterator held) {
    close_slot(held->slot);
    held_.erase(held);
  }

  void drop_prompt() {
    if (prompt_.request != nullptr) close_slot(prompt_.slot);
    prompt_ = {};
  }

  // The longest held sequence that begins `tokens` and leaves at least one to compute. Keys of
  // other RoPE frequencies cannot be continued.
  HeldSequences::iterator find_held(const Ids& tokens) {
    const RopeConfig& rope = model_.config().rope;
    const auto frequencies = [&](size_t length) {
      return rope_frequency_class(rope, static_cast<int64_t>(length));
    };
    auto best = held_.end();
    for (auto it = held_.begin(); it != held_.end(); ++it) {
      const size_t n = it->ids.size();
      if (n >= tokens.size() || (best != held_.end() && n <= best->ids.size())) continue;
      if (frequencies(n) != frequencies(tokens.size())) continue;
      if (std::equal(it->ids.begin(), it->ids.end(), tokens.begin())) best = it;
    }
    return best;
  }

  // Returns whether a sequence that finds `shared` tokens in the cache can start. Held sequences
  // other than `wanted` make room.
  bool has_room(const QueuedSequence& s, int64_t shared, HeldSequences::iterator wanted) {
    if (active_ >= options_.batch) return false;
    const int64_t more = cache_.slot_bytes(capacity(s), shared);
    const auto fits = [&] { return cache_.bytes() + more <= options_.cache_mb * kMegabyte; };
    for (auto it = held_.begin(); it != held_.end() && !fits();) {
      const auto oldest = it++;
      if (oldest == wanted) continue;
      drop_held(oldest);
      ++counters_.evicted;
    }
    // A sequence alone is admitted whatever its cache needs, or the queue would never move.
    return fits() || active_ == 0;
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
           is_fresh(*waiting_.front());
  }

  // Samples whose prompt was computed for an earlier sample.
  bool admit_samples() {
    std::vector<PendingDraw> draws;
    while (prompt_is_ready()) {
      const QueuedSequence& next = *waiting_.front();
      const int64_t length = next.request->prompt_length();
      if (!has_room(next, length, held_.end())) break;
      QueuedSequence& s = start(open(capacity(next), length));
      cache_.fork(prompt_.slot, s.slot);
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
      const Ids tokens = tokens_of(next);
      const auto length = static_cast<int64_t>(tokens.size());
      const auto held = find_held(tokens);
      const int64_t reused = held == held_.end() ? 0 : std::ssize(held->ids);
      if (pack.size() > 0 && pack.size() + length - reused > kPrefillTokens) break;
      if (!has_room(next, reused, held)) break;
      QueuedSequence& s = start(take_slot(next, held));
      pack.append(s.slot, std::span(tokens).subspan(static_cast<size_t>(reused)), reused);
      counters_.reused += reused;
      draws.push_back({&s, pack.size() - 1, length});
      if (!is_fresh(s)) continue;
      const auto sibling_waits = [&] {
        return !waiting_.empty() && waiting_.front()->request == s.request &&
               is_fresh(*waiting_.front());
      };
      while (sibling_waits() && has_room(*waiting_.front(), length, held_.end())) {
        QueuedSequence& sibling = start(open(capacity(*waiting_.front()), length));
        forks.emplace_back(s.slot, sibling.slot);
        counters_.reused += length;
        draws.push_back({&sibling, pack.size() - 1, length});
      }
      if (sibling_waits()) unfinished = &draws.back();
    }
    if (pack.size() == 0) return false;
    const at::Tensor hidden = forward(pack);
    for (const auto& [from, to] : forks) cache_.fork(from, to);
    if (unfinished != nullptr) share_prompt(*unfinished, hidden);
    draw_each(hidden, draws);
    return true;
  }

  // The slot of a held sequence that the next one continues, or a new one.
  int64_t take_slot(const QueuedSequence& next, HeldSequences::iterator held) {
    if (held == held_.end()) return open(capacity(next), 0);
    const int64_t slot = held->slot;
    held_.erase(held);
    cache_.reserve(slot, capacity(next));
    return slot;
  }

  void share_prompt(const PendingDraw& sample, const at::Tensor& hidden) {
    prompt_ = {sample.sequence->request, open(sample.position, sample.position),
               hidden.narrow(0, sample.row, 1).clone()};
    cache_.fork(sample.sequence->slot, prompt_.slot);
  }

  // ---- decoding

  // One token for every running sequence.
  void decode() {
    AppendedTokens pack;
    std::vector<PendingDraw> draws;
    std::vector<QueuedSequence*> crossing;
    for (QueuedSequence* const s : std::exchange(running_, {})) {
      if (crosses(*s)) {
        crossing.push_back(s);
        continue;
      }
      pack.append(s->slot, {&s->made.ids.back(), 1}, cache_.length(s->slot));
      draws.push_back({s, pack.size() - 1, token_count(*s)});
    }
    wait_again(crossing);
    if (!draws.empty()) draw_each(forward(pack), draws);
  }

  at::Tensor forward(const AppendedTokens& pack) {
    counters_.computed += pack.size();
    cache_.use_slots(pack.slots);
    return model_.forward_cached({.tokens = int64_tensor(pack.tokens),
                                  .position_ids = int64_tensor(pack.positions),
                                  .cu_seqlens = pack.cu_seqlens},
                                 cache_);
  }

  // Draws one token for each of several sequences.
  void draw_each(const at::Tensor& hidden, const std::vector<PendingDraw>& draws) {
    const std::vector<DrawnToken> drawn = draw(hidden, draws);
    for (size_t i = 0; i < draws.size(); ++i) {
      QueuedSequence& s = *draws[i].sequence;
      if (take(s, drawn[i])) {
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
      const at::Tensor logits = logits_of(at::index_select(hidden, 0, int64_tensor(rows)));
      const std::vector<DrawnToken> some = draw_tokens(logits, keys, options);
      drawn.insert(drawn.end(), some.begin(), some.end());
    }
    return drawn;
  }

  at::Tensor logits_of(const at::Tensor& hidden) const {
    const int64_t n = hidden.size(0), vocab = head_.size(0);
    at::Tensor logits = scratch_floats(n * vocab).view({n, vocab});
    multiply_rows_into(logits, hidden.to(at::kFloat), head_);
    return logits;
  }

  // Adds a token to a sequence; returns whether it continues.
  bool take(QueuedSequence& s, const DrawnToken& drawn) {
    const SampleRequest& spec = s.request->spec;
    const int64_t position = token_count(s);
    Generation& made = s.made;
    if (made.ids.empty()) made.first_version = version_;
    made.last_version = version_;
    made.ids.push_back(drawn.id);
    made.logprobs.push_back(drawn.logprob);
    if (spec.sampling.truncates()) made.logprobs_kept.push_back(drawn.logprob_kept);
    ++counters_.tokens;
    bool stopped =
        std::find(spec.stop_ids.begin(), spec.stop_ids.end(), drawn.id) != spec.stop_ids.end();
    if (spec.on_token) stopped |= spec.on_token(s.sample, drawn.id);
    const bool full = std::ssize(made.ids) >= spec.max_new_tokens ||
                      position >= model_.config().max_length;
    if (stopped || full) made.finish = stopped ? "stop" : "length";
    return !stopped && !full;
  }

  // Holds or frees the keys of a finished sequence.
  void finish(QueuedSequence& s) {
    --s.request->unfinished;
    if (!s.request->spec.hold) return close(s);
    Ids tokens = tokens_of(s);
    tokens.pop_back();  // the newest token has no keys
    cache_.reserve(s.slot, std::ssize(tokens));
    held_.push_back({std::move(tokens), std::exchange(s.slot, -1)});
    --active_;
  }

  Model& model_;
  const SamplerOptions options_;
  KvCache cache_;
  SamplerCounters counters_;
  int64_t version_ = -1;  // the update count that keys and head belong to
  at::Tensor head_;       // [V, D] fp32
  std::deque<std::unique_ptr<QueuedRequest>> requests_;  // not polled yet, by ticket
  Ticket next_ticket_ = 0;
  std::deque<QueuedSequence*> waiting_;
  std::vector<QueuedSequence*> running_;
  int64_t active_ = 0;  // sequences with a slot
  HeldSequences held_;  // the oldest first
  SharedPrompt prompt_;
  std::vector<int64_t> free_slots_;
  int64_t slots_ = 0;
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
const SamplerCounters& Sampler::counters() const { return decoding_->counters(); }

void check_prompt(const ModelConfig& config, const std::vector<int32_t>& ids,
                  const std::string& what) {
  const auto length = static_cast<int64_t>(ids.size());
  XRUN_CHECK(length > 0, "{} is empty; a continuation needs at least one token", what);
  XRUN_CHECK(length <= config.max_length, "{} has {} tokens, the model's limit is {}", what, length,
             config.max_length);
  for (const int32_t id : ids) {
    XRUN_CHECK(id >= 0 && id < config.vocab,
               "{} holds the id {}, outside the model's vocabulary of {}", what, id, config.vocab);
  }
}

}  // namespace xrun
