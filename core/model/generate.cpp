// Prompts of a batch are run packed into the cache, then all live sequences advance one token at a
// time; a finished one leaves its slot and the batch shrinks.

#include "core/model/generate.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/model/kv_cache.h"
#include "core/model/model.h"
#include "core/model/scratch.h"
#include "kernels/cpu/kernels.h"

namespace xrun {

namespace {

constexpr int64_t kPrefillTokens = 4096;  // of one forward, bounds its activations

struct Choice {
  int32_t id;
  float logprob;
};

// The likeliest token of each row of logits [n, V] fp32, the lowest id among equals.
std::vector<Choice> choose_greedy(const at::Tensor& logits) {
  const int64_t n = logits.size(0), vocab = logits.size(1);
  float* const x = logits.mutable_data_ptr<float>();
  std::vector<Choice> choices(static_cast<size_t>(n));
  at::parallel_for(0, n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float* const row = x + r * vocab;
      const int64_t best = std::max_element(row, row + vocab) - row;  // the first largest
      Choice& choice = choices[static_cast<size_t>(r)];
      choice.id = static_cast<int32_t>(best);
      kernels::cpu_kernels().softmax_rows(
          {row, &best, &choice.logprob, nullptr, 1, vocab, /*keep=*/false});
    }
  });
  return choices;
}

// One batch of prompts from first token to last.
class Decoding {
 public:
  Decoding(Model& model, const at::Tensor& head, const GenerateOptions& options,
           std::span<const std::vector<int32_t>> prompts, std::span<Generation> results)
      : model_(model),
        head_(head),
        options_(options),
        prompts_(prompts),
        results_(results),
        cache_(model.config(), model.compute_type(), static_cast<int64_t>(prompts.size()),
               capacity()) {}

  // Returns false if the caller stopped it. `made` counts tokens of all batches.
  bool run(int64_t& made) {
    if (options_.max_new_tokens < 1) return finish_all("length"), true;
    prefill(made);
    while (!live_.empty()) {
      check_interrupt();
      if (options_.progress && !options_.progress(made)) return finish_all("interrupted"), false;
      decode(made);
    }
    return true;
  }

 private:
  int64_t capacity() const {
    size_t longest = 0;
    for (const std::vector<int32_t>& prompt : prompts_) longest = std::max(longest, prompt.size());
    const int64_t wanted =
        static_cast<int64_t>(longest) + std::max<int64_t>(options_.max_new_tokens, 0);
    return std::min(wanted, model_.config().max_length);
  }

  void prefill(int64_t& made) {
    for (size_t begin = 0; begin < prompts_.size();) {
      std::vector<std::vector<int32_t>> pack;
      std::vector<int64_t> slots;
      for (int64_t tokens = 0; begin < prompts_.size(); ++begin) {
        tokens += static_cast<int64_t>(prompts_[begin].size());
        if (!pack.empty() && tokens > kPrefillTokens) break;
        pack.push_back(prompts_[begin]);
        slots.push_back(static_cast<int64_t>(begin));
      }
      advance(pack_sequences(pack), slots, made);
    }
  }

  // Whether the next token takes a sequence to other frequencies (longrope); all of its keys are
  // made again then, as the training forward has them.
  bool crosses(int64_t slot) const {
    const RopeConfig& rope = model_.config().rope;
    return rope.type == RopeConfig::Type::kLongrope &&
           cache_.length(slot) == rope.original_max_length;
  }

  void refill(int64_t slot, int64_t& made) {
    std::vector<int32_t> tokens = prompts_[static_cast<size_t>(slot)];
    const std::vector<int32_t>& ids = results_[static_cast<size_t>(slot)].ids;
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    cache_.clear(slot);
    advance(pack_sequences({tokens}), {slot}, made);
  }

  void decode(int64_t& made) {
    std::vector<int64_t> slots;
    for (const int64_t slot : std::exchange(live_, {})) {
      if (crosses(slot)) {
        refill(slot, made);
      } else {
        slots.push_back(slot);
      }
    }
    if (slots.empty()) return;
    std::vector<int64_t> tokens, positions;
    PackInput input;
    input.cu_seqlens.push_back(0);
    for (const int64_t slot : slots) {
      tokens.push_back(results_[static_cast<size_t>(slot)].ids.back());
      positions.push_back(cache_.length(slot));
      input.cu_seqlens.push_back(static_cast<int32_t>(tokens.size()));
    }
    input.tokens = int64_tensor(tokens);
    input.position_ids = int64_tensor(positions);
    advance(input, slots, made);
  }

  // Runs one forward and gives every slot its next token.
  void advance(const PackInput& input, const std::vector<int64_t>& slots, int64_t& made) {
    cache_.use_slots(slots);
    const at::Tensor hidden = model_.forward_cached(input, cache_);
    std::vector<int64_t> last;
    for (size_t s = 0; s < slots.size(); ++s) last.push_back(input.cu_seqlens[s + 1] - 1);
    const at::Tensor rows = at::index_select(hidden, 0, int64_tensor(last)).to(at::kFloat);
    const int64_t n = rows.size(0), vocab = head_.size(0);
    at::Tensor logits = scratch_floats(n * vocab).view({n, vocab});
    at::mm_out(logits, rows, head_.t());
    const std::vector<Choice> choices = choose_greedy(logits);
    for (size_t s = 0; s < slots.size(); ++s) take(slots[s], choices[s]);
    made += n;
  }

  void take(int64_t slot, const Choice& choice) {
    Generation& result = results_[static_cast<size_t>(slot)];
    result.ids.push_back(choice.id);
    result.logprobs.push_back(choice.logprob);
    const std::vector<int32_t>& stops = options_.stop_ids;
    const bool stopped = std::find(stops.begin(), stops.end(), choice.id) != stops.end();
    const bool full = static_cast<int64_t>(result.ids.size()) >= options_.max_new_tokens ||
                      cache_.length(slot) >= model_.config().max_length;
    if (stopped || full) {
      result.finish = stopped ? "stop" : "length";
    } else {
      live_.push_back(slot);
    }
  }

  void finish_all(const char* how) {
    for (Generation& result : results_) {
      if (result.finish.empty()) result.finish = how;
    }
  }

  Model& model_;
  const at::Tensor& head_;  // [V, D] fp32
  const GenerateOptions& options_;
  std::span<const std::vector<int32_t>> prompts_;
  std::span<Generation> results_;
  KvCache cache_;
  std::vector<int64_t> live_;
};

void check_prompts(const Model& model, const std::vector<std::vector<int32_t>>& prompts) {
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

}  // namespace

std::vector<Generation> generate(Model& model, const std::vector<std::vector<int32_t>>& prompts,
                                 const GenerateOptions& options) {
  check_prompts(model, prompts);
  XRUN_CHECK(options.batch >= 1, "batch is {}, it must be at least 1", options.batch);
  const at::NoGradGuard no_grad;
  const at::Tensor head = model.head_weight().to(at::kFloat).contiguous();
  std::vector<Generation> results(prompts.size());
  int64_t made = 0;
  for (size_t begin = 0; begin < prompts.size(); begin += static_cast<size_t>(options.batch)) {
    const size_t n = std::min(prompts.size() - begin, static_cast<size_t>(options.batch));
    Decoding decoding(model, head, options, std::span(prompts).subspan(begin, n),
                      std::span(results).subspan(begin, n));
    if (!decoding.run(made)) break;
  }
  for (Generation& result : results) {
    if (result.finish.empty()) result.finish = "interrupted";  // never begun
  }
  return results;
}

}  // namespace xrun
