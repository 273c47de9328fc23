// A sequence is one sample of one prompt. Free slots take the next prompts, packed into one
// prefill; then all live sequences advance by one token, and those that end free their slots.

#include "core/model/generate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/index_select.h>

#include <algorithm>
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
constexpr int64_t kMegabyte = 1 << 20;

using Prompts = std::vector<std::vector<int32_t>>;

class Decoding {
 public:
  Decoding(Model& model, const GenerateOptions& options, const Prompts& prompts)
      : model_(model),
        head_(model.head_weight().to(at::kFloat).contiguous()),
        options_(options),
        prompts_(prompts),
        results_(prompts.size() * static_cast<size_t>(options.samples)),
        cache_(model.config(), model.compute_type(), slots()),
        sequence_of_(static_cast<size_t>(slots())) {
    // Taken from the back: sequence 0 gets slot 0.
    for (int64_t slot = slots(); slot-- > 0;) free_.push_back(slot);
  }

  std::vector<Generation> run() {
    if (options_.max_new_tokens < 1) return finish_all("length");
    while (true) {
      while (admit()) check_interrupt();
      if (live_.empty()) return finish_all("interrupted");  // all have ended already
      check_interrupt();
      if (options_.progress && !options_.progress(made_)) return finish_all("interrupted");
      decode();
    }
  }

 private:
  // The slot of a sequence, and the row of the pack whose hidden state gives its next token.
  struct SlotRow {
    int64_t slot;
    int64_t row;
  };

  int64_t slots() const { return std::min(options_.batch, static_cast<int64_t>(results_.size())); }
  const std::vector<int32_t>& prompt_of(size_t sequence) const {
    return prompts_[sequence / static_cast<size_t>(options_.samples)];
  }
  int64_t capacity(const std::vector<int32_t>& prompt) const {
    const int64_t left =
        model_.config().max_length - static_cast<int64_t>(prompt.size());  // may be 0
    return static_cast<int64_t>(prompt.size()) + std::min(left, options_.max_new_tokens);
  }

  // True if there is a slot and memory for the next sequence, which shares its first tokens.
  bool has_room(int64_t shared) const {
    if (next_ == results_.size() || free_.empty()) return false;
    // The only sequence is admitted whatever its cache needs, or the queue would never move.
    if (free_.size() == sequence_of_.size()) return true;
    const int64_t wanted = cache_.slot_bytes(capacity(prompt_of(next_)), shared);
    return cache_.bytes() + wanted <= options_.cache_mb * kMegabyte;
  }

  int64_t take_slot(int64_t shared) {
    const int64_t slot = free_.back();
    free_.pop_back();
    cache_.open(slot, capacity(prompt_of(next_)), shared);
    sequence_of_[static_cast<size_t>(slot)] = next_++;
    return slot;
  }

  // Prefills the next prompts as one pack, each once for all of its samples that have a slot.
  // Returns false if none was admitted.
  bool admit() {
    Prompts pack;
    std::vector<int64_t> firsts;
    std::vector<SlotRow> segments;
    int64_t tokens = 0;
    while (has_room(0)) {
      const std::vector<int32_t>& prompt = prompt_of(next_);
      const auto length = static_cast<int64_t>(prompt.size());
      // A longer prompt is a pack by itself.
      if (!pack.empty() && tokens + length > kPrefillTokens) break;
      pack.push_back(prompt);
      tokens += length;
      firsts.push_back(take_slot(0));
      segments.push_back({firsts.back(), tokens - 1});
      // By address: equal texts in two prompts are two prompts.
      while (has_room(length) && &prompt_of(next_) == &prompt) {
        segments.push_back({take_slot(length), tokens - 1});
      }
    }
    if (pack.empty()) return false;
    const at::Tensor hidden = forward(pack_sequences(pack), firsts);
    fork(firsts, segments);
    draw(hidden, segments);
    return true;
  }

  // Further samples of a prompt read its keys where they are.
  void fork(const std::vector<int64_t>& firsts, const std::vector<SlotRow>& segments) {
    // A prompt's first slot comes before those of its other samples.
    size_t prompt = 0;
    for (const SlotRow& segment : segments) {
      if (prompt < firsts.size() && segment.slot == firsts[prompt]) {
        ++prompt;
      } else {
        cache_.fork(firsts[prompt - 1], segment.slot);
      }
    }
  }

  // True if the next token moves a sequence to the long frequencies (longrope). All of its keys are
  // then computed again, as in the training forward.
  bool crosses(int64_t slot) const {
    const RopeConfig& rope = model_.config().rope;
    return rope.type == RopeConfig::Type::kLongrope &&
           cache_.length(slot) == rope.original_max_length;
  }

  void refill(int64_t slot) {
    const size_t sequence = sequence_of_[static_cast<size_t>(slot)];
    std::vector<int32_t> tokens = prompt_of(sequence);
    const std::vector<int32_t>& ids = results_[sequence].ids;
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    cache_.clear(slot);
    const at::Tensor hidden = forward(pack_sequences({tokens}), {slot});
    draw(hidden, {{slot, static_cast<int64_t>(tokens.size()) - 1}});
  }

  void decode() {
    std::vector<int64_t> slots, tokens, positions;
    std::vector<SlotRow> segments;
    PackInput input;
    input.cu_seqlens.push_back(0);
    // draw() puts back those that go on.
    for (const int64_t slot : std::exchange(live_, {})) {
      if (crosses(slot)) {
        refill(slot);
        continue;
      }
      segments.push_back({slot, static_cast<int64_t>(tokens.size())});
      slots.push_back(slot);
      tokens.push_back(results_[sequence_of_[static_cast<size_t>(slot)]].ids.back());
      positions.push_back(cache_.length(slot));
      input.cu_seqlens.push_back(static_cast<int32_t>(tokens.size()));
    }
    if (slots.empty()) return;
    input.tokens = int64_tensor(tokens);
    input.position_ids = int64_tensor(positions);
    draw(forward(input, slots), segments);
  }

  at::Tensor forward(const PackInput& input, const std::vector<int64_t>& slots) {
    cache_.use_slots(slots);
    return model_.forward_cached(input, cache_);
  }

  // Draws the next token of every segment from the hidden state of its row.
  void draw(const at::Tensor& hidden, const std::vector<SlotRow>& segments) {
    std::vector<int64_t> rows;
    std::vector<DrawKey> keys;
    for (const SlotRow& segment : segments) {
      const size_t sequence = sequence_of_[static_cast<size_t>(segment.slot)];
      const auto samples = static_cast<size_t>(options_.samples);
      const size_t prompt = sequence / samples;
      rows.push_back(segment.row);
      // Keyed by position and not by step, so that a token does not depend on the batch around it.
      keys.push_back({options_.prompt_names.empty() ? prompt : options_.prompt_names[prompt],
                      static_cast<uint32_t>(sequence % samples),
                      static_cast<uint64_t>(cache_.length(segment.slot))});
    }
    // Samples of one prompt read the same row, and draw different tokens by their keys.
    const at::Tensor last = at::index_select(hidden, 0, int64_tensor(rows)).to(at::kFloat);
    const int64_t n = last.size(0), vocab = head_.size(0);
    at::Tensor logits = scratch_floats(n * vocab).view({n, vocab});
    multiply_rows_into(logits, last, head_);
    const std::vector<DrawnToken> draws = draw_tokens(logits, keys, options_.sampling);
    made_ += n;
    for (size_t s = 0; s < segments.size(); ++s) take(segments[s].slot, draws[s]);
  }

  void take(int64_t slot, const DrawnToken& draw) {
    const size_t sequence = sequence_of_[static_cast<size_t>(slot)];
    Generation& result = results_[sequence];
    result.ids.push_back(draw.id);
    result.logprobs.push_back(draw.logprob);
    if (options_.sampling.truncates()) result.logprobs_kept.push_back(draw.logprob_kept);
    const std::vector<int32_t>& stops = options_.stop_ids;
    bool stopped = std::find(stops.begin(), stops.end(), draw.id) != stops.end();
    if (options_.on_token) stopped |= options_.on_token(sequence, draw.id);
    const bool full = static_cast<int64_t>(result.ids.size()) >= options_.max_new_tokens ||
                      cache_.length(slot) >= model_.config().max_length;
    if (!stopped && !full) {
      live_.push_back(slot);
      return;
    }
    result.finish = stopped ? "stop" : "length";
    cache_.close(slot);
    free_.push_back(slot);
  }

  std::vector<Generation> finish_all(const char* how) {
    for (Generation& result : results_) {
      if (result.finish.empty()) result.finish = how;
    }
    return std::move(results_);
  }

  Model& model_;
  const at::Tensor head_;  // [V, D] fp32
  const GenerateOptions& options_;
  const Prompts& prompts_;
  std::vector<Generation> results_;
  KvCache cache_;
  std::vector<size_t> sequence_of_;  // by slot
  std::vector<int64_t> live_, free_;
  size_t next_ = 0;  // the first sequence that is not admitted yet
  int64_t made_ = 0;
};

void check_prompts(const Model& model, const Prompts& prompts) {
  const ModelConfig& config = model.config();
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto length = static_cast<int64_t>(prompts[i].size());
    XRUN_CHECK(length > 0, "prompt {} is empty; a continuation needs at least one token", i + 1);
    XRUN_CHECK(length <= config.max_length, "prompt {} has {} tokens, the model's limit is {}",
               i + 1, length, config.max_length);
    for (const int32_t id : prompts[i]) {
      XRUN_CHECK(id >= 0 && id < config.vocab,
                 "prompt {} holds the id {}, outside the model's vocabulary of {}", i + 1, id,
                 config.vocab);
    }
  }
}

void check_options(const GenerateOptions& options, size_t prompts) {
  constexpr int64_t kMaxSamples = 1 << 20;  // a draw key has 20 bits for them
  check_sampling(options.sampling);
  XRUN_CHECK(options.batch >= 1, "batch is {}, it must be at least 1", options.batch);
  XRUN_CHECK(options.samples >= 1 && options.samples <= kMaxSamples,
             "samples is {}, wanted 1 to {}", options.samples, kMaxSamples);
  XRUN_CHECK(options.prompt_names.empty() || options.prompt_names.size() == prompts,
             "{} prompts have {} names", prompts, options.prompt_names.size());
}

}  // namespace

std::vector<Generation> generate(Model& model, const Prompts& prompts,
                                 const GenerateOptions& options) {
  XRUN_CHECK(model.device().is_cpu(), "a model on {} cannot decode; take its host_copy()",
             model.device().str());
  check_prompts(model, prompts);
  check_options(options, prompts.size());
  const at::NoGradGuard no_grad;
  return Decoding(model, options, prompts).run();
}

}  // namespace xrun
