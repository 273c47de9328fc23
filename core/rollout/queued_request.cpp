// A draft is read at the index of the next token, even after a token that differed: two answers of
// a sharp policy often converge again.

#include "core/rollout/queued_request.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/model/model.h"
#include "core/model/ops/rope.h"

namespace xrun {

namespace {

constexpr int64_t kMaxDraft = 64;  // tokens of one forward
// The ranges of a draw key (sampling.h).
constexpr int64_t kMaxSamples = 1 << 20;
constexpr uint64_t kMaxPromptKey = (uint64_t{1} << 44) - 1;

void check_ids(const ModelConfig& config, const std::vector<int32_t>& ids,
               const std::string& what) {
  for (const int32_t id : ids) {
    XRUN_CHECK(id >= 0 && id < config.vocab,
               "{} holds the id {}, outside the model's vocabulary of {}", what, id, config.vocab);
  }
}

void check_request(const ModelConfig& config, const SampleRequest& spec) {
  check_prompt(config, spec.prompt, "the prompt");
  check_sampling(spec.sampling);
  const int64_t max_samples = kMaxSamples - int64_t{spec.first_sample};
  XRUN_CHECK(max_samples > 0, "first_sample is {}, wanted 0 to {}", spec.first_sample,
             kMaxSamples - 1);
  XRUN_CHECK(spec.samples >= 1 && spec.samples <= max_samples, "samples is {}, wanted 1 to {}",
             spec.samples, max_samples);
  XRUN_CHECK(spec.prompt_key <= kMaxPromptKey, "prompt_key is {}, wanted 0 to {}", spec.prompt_key,
             kMaxPromptKey);
  XRUN_CHECK(spec.drafts.empty() || std::ssize(spec.drafts) == spec.samples,
             "samples is {}, but there are {} drafts", spec.samples, spec.drafts.size());
  for (const std::vector<int32_t>& draft : spec.drafts) check_ids(config, draft, "a draft");
}

}  // namespace

int64_t QueuedSequence::token_count() const {
  return request->prompt_length() + static_cast<int64_t>(made.ids.size());
}

std::vector<int32_t> QueuedSequence::tokens() const {
  std::vector<int32_t> all = request->spec.prompt;
  all.insert(all.end(), made.ids.begin(), made.ids.end());
  return all;
}

std::span<const int32_t> QueuedSequence::draft(const ModelConfig& config, int64_t max_ids) const {
  const SampleRequest& spec = request->spec;
  if (spec.drafts.empty()) return {};
  const std::vector<int32_t>& all = spec.drafts[static_cast<size_t>(sample)];
  const int64_t done = std::ssize(made.ids), length = token_count();
  // - 1: the row of the last draft token draws one more token.
  int64_t n = std::min({max_ids, draft_window, std::ssize(all) - done,
                        spec.max_new_tokens - done - 1, config.max_length - length});
  const auto frequencies = [&](int64_t count) { return rope_frequency_class(config.rope, count); };
  // All keys of one forward must have the sequence's present frequencies.
  while (n > 0 && frequencies(length + n) != frequencies(length)) --n;
  if (n <= 0) return {};
  const auto ids = std::span(all).subspan(static_cast<size_t>(done), static_cast<size_t>(n));
  const auto stop =
      std::find_first_of(ids.begin(), ids.end(), spec.stop_ids.begin(), spec.stop_ids.end());
  return ids.first(static_cast<size_t>(stop - ids.begin()));
}

void QueuedSequence::adapt_window(int64_t offered, int64_t accepted) {
  if (offered == 0) return;
  if (accepted == offered) {
    draft_window = std::min(2 * draft_window, kMaxDraft);
  } else if (accepted > 0) {
    draft_window = accepted;
  } else {
    draft_window = std::exchange(draft_missed, true) ? 0 : 1;
  }
}

void QueuedSequence::take_routes() {
  if (!request->spec.record_routes) return;
  TokenRoutes all = request->prompt_routes;
  all.experts.insert(all.experts.end(), routes.experts.begin(), routes.experts.end());
  made.routes = std::make_shared<const TokenRoutes>(std::move(all));
}

void record_routes(QueuedSequence& sequence, const std::vector<at::Tensor>& routes, int64_t begin,
                   int64_t end, int64_t position) {
  if (!sequence.request->spec.record_routes) return;
  const auto layers = std::ssize(routes);
  const auto moe = std::find_if(routes.begin(), routes.end(),
                                [](const at::Tensor& layer) { return layer.defined(); });
  const int64_t top_k = moe->size(1), prompt = sequence.request->prompt_length();
  for (int64_t row = begin; row < end; ++row, ++position) {
    const bool in_prompt = position < prompt;
    TokenRoutes& to = in_prompt ? sequence.request->prompt_routes : sequence.routes;
    to.layers = layers;
    to.top_k = top_k;
    const int64_t at = in_prompt ? position : position - prompt;
    // Tokens whose keys were held from an earlier request have unknown experts.
    if (to.token_count() < at) to.experts.resize(static_cast<size_t>(at * to.width()), -1);
    // Already recorded: by another sample of the request, or before the keys were computed again.
    if (to.token_count() > at) continue;
    for (const at::Tensor& layer : routes) {
      for (int64_t k = 0; k < top_k; ++k) {
        const int64_t expert =
            layer.defined() ? layer.const_data_ptr<int64_t>()[row * top_k + k] : -1;
        to.experts.push_back(static_cast<int16_t>(expert));
      }
    }
  }
}

QueuedRequest::QueuedRequest(const ModelConfig& config, Ticket number, SampleRequest request)
    : ticket(number), spec(std::move(request)) {
  check_request(config, spec);
  const bool empty = spec.max_new_tokens < 1;
  unfinished = empty ? 0 : spec.samples;
  for (int64_t s = 0; s < spec.samples; ++s) {
    sequences.push_back({this, s});
    if (empty) sequences.back().made.finish = "length";
  }
}

bool submitted_before(const QueuedSequence* a, const QueuedSequence* b) {
  return std::tie(a->request->ticket, a->sample) < std::tie(b->request->ticket, b->sample);
}

void check_prompt(const ModelConfig& config, const std::vector<int32_t>& ids,
                  const std::string& what) {
  const auto length = static_cast<int64_t>(ids.size());
  XRUN_CHECK(length > 0, "{} is empty; a continuation needs at least one token", what);
  XRUN_CHECK(length <= config.max_length, "{} has {} tokens, the model's limit is {}", what, length,
             config.max_length);
  check_ids(config, ids, what);
}

}  // namespace xrun
