// A step appends the newest token of every running sequence to its slot and draws the next one. A
// draft is verified by appending it after the newest token: row i of the forward draws token i
// under its own key. The row counts if all rows before it drew the draft's tokens; the keys after
// the first wrong input are dropped.

#include "core/rollout/decoding.h"

#include <ATen/ops/index_select.h>

#include <algorithm>
#include <utility>

#include "core/model/model.h"
#include "core/model/ops/device.h"
#include "core/model/ops/rope.h"
#include "core/rollout/sampler_limits.h"

namespace xrun {

void AppendedTokens::append(QueuedSequence& sequence, std::span<const int32_t> ids,
                            int64_t position, int64_t length) {
  sequences.push_back(&sequence);
  slots.push_back(sequence.slot);
  for (const int32_t id : ids) {
    tokens.push_back(id);
    positions.push_back(position++);
  }
  cu_seqlens.push_back(static_cast<int32_t>(tokens.size()));
  lengths.push_back(static_cast<int32_t>(length));
}

// Called once per decoding step.
void Sampler::Decoding::pack_weights() {
  if (++steps_ <= kUnpackedSteps || pack_is_refused_ || model_.is_packed()) return;
  pack_is_refused_ = !model_.pack();
  if (!pack_is_refused_) ++counters_.packed;
}

// Returns true if the next token moves a sequence to the long frequencies (longrope). All of its
// keys are then computed again, as in the training forward.
bool Sampler::Decoding::crosses(const QueuedSequence& sequence) const {
  const RopeConfig& rope = model_.config().rope;
  return rope.type == RopeConfig::Type::kLongrope &&
         slots_.cache().length(sequence.slot) == rope.original_max_length;
}

// Draws one token for every running sequence, and verifies its draft.
void Sampler::Decoding::decode() {
  AppendedTokens pack;
  std::vector<PendingDraw> draws;
  std::vector<QueuedSequence*> crossing;
  // Drafts lengthen a step's forward to at most prefill_tokens rows, which bounds its memory.
  const int64_t max_draft = options_.prefill_tokens / std::ssize(running_) - 1;
  for (QueuedSequence* const s : std::exchange(running_, {})) {
    if (crosses(*s)) {
      crossing.push_back(s);
      continue;
    }
    const std::span<const int32_t> draft =
        draft_credit_ > 0 ? s->draft(model_.config(), max_draft) : std::span<const int32_t>();
    draft_credit_ -= kDraftCost * static_cast<double>(std::ssize(draft));
    std::vector<int32_t> ids = {s->made.ids.back()};
    ids.insert(ids.end(), draft.begin(), draft.end());
    for (int64_t i = 0; i < std::ssize(ids); ++i) {
      draws.push_back({s, pack.size() + i, s->token_count() + i});
    }
    const int64_t position = slots_.cache().length(s->slot);
    pack.append(*s, ids, position, position + std::ssize(ids));
    counters_.drafted += std::ssize(draft);
  }
  wait_again(crossing);
  pack_weights();
  if (!draws.empty()) draw_each(forward(pack), draws, pack.tokens);
}

at::Tensor Sampler::Decoding::forward(const AppendedTokens& pack) {
  counters_.computed += pack.size();
  slots_.cache().use_slots(pack.slots);
  const bool records =
      model_.config().moe.experts > 0 &&
      std::any_of(pack.sequences.begin(), pack.sequences.end(),
                  [](const QueuedSequence* s) { return s->request->spec.record_routes; });
  std::vector<at::Tensor> routes;
  const at::Tensor hidden = model_.forward_cached({.tokens = int64_tensor(pack.tokens),
                                                   .position_ids = int64_tensor(pack.positions),
                                                   .cu_seqlens = pack.cu_seqlens,
                                                   .rope_length = pack.lengths},
                                                  slots_.cache(), records ? &routes : nullptr);
  for (size_t i = 0; records && i < pack.sequences.size(); ++i) {
    const int64_t begin = pack.cu_seqlens[i], end = pack.cu_seqlens[i + 1];
    record_routes(*pack.sequences[i], routes, begin, end,
                  pack.positions[static_cast<size_t>(begin)]);
  }
  return hidden;
}

// Draws the next tokens of several sequences; the draws of one are adjacent.
//   inputs  [rows] the tokens that went in; read only where a sequence has several draws
void Sampler::Decoding::draw_each(const at::Tensor& hidden, const std::vector<PendingDraw>& draws,
                                  const std::vector<int64_t>& inputs) {
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
      draft_credit_ = std::min(draft_credit_ + 1, kMostCredit);
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
  // Sequences that share blocks become neighbours, so that attention reads the blocks once
  // (kv_cache.h).
  std::sort(running_.begin(), running_.end(), submitted_before);
}

// Requests may differ in their options; rows of equal ones are drawn together.
std::vector<DrawnToken> Sampler::Decoding::draw(const at::Tensor& hidden,
                                                const std::vector<PendingDraw>& draws) {
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
    const at::Tensor logits = model_.decoding_logits(
        at::index_select(hidden, 0, on_device(int64_tensor(rows), hidden.device())));
    const std::vector<DrawnToken> some = draw_tokens(logits, keys, options);
    drawn.insert(drawn.end(), some.begin(), some.end());
  }
  return drawn;
}

// Adds a token to a sequence; returns true if it continues.
bool Sampler::Decoding::take(QueuedSequence& sequence, const DrawnToken& drawn) {
  const SampleRequest& spec = sequence.request->spec;
  const int64_t position = sequence.token_count();
  Generation& made = sequence.made;
  made.ids.push_back(drawn.id);
  made.logprobs.push_back(drawn.logprob);
  if (spec.sampling.truncates()) made.logprobs_kept.push_back(drawn.logprob_kept);
  ++counters_.tokens;
  bool stopped =
      std::find(spec.stop_ids.begin(), spec.stop_ids.end(), drawn.id) != spec.stop_ids.end();
  if (spec.on_token) stopped |= spec.on_token(sequence.sample, drawn.id);
  const bool full =
      std::ssize(made.ids) >= spec.max_new_tokens || position >= model_.config().max_length;
  if (stopped || full) made.finish = stopped ? "stop" : "length";
  return !stopped && !full;
}

// Holds or frees the keys of a finished sequence.
void Sampler::Decoding::finish(QueuedSequence& sequence) {
  --sequence.request->unfinished;
  if (!sequence.request->spec.hold) return close(sequence);
  std::vector<int32_t> tokens = sequence.tokens();
  tokens.pop_back();  // the newest token has no keys
  slots_.hold({.ids = std::move(tokens),
               .slot = sequence.slot,
               .ticket = sequence.request->ticket,
               .sample = sequence.sample});
  sequence.slot = -1;
  --active_;
}

}  // namespace xrun
