// One request per prompt; the sampler returns them in order.

#include "core/rollout/generate.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/model/model.h"
#include "core/rollout/queued_request.h"

namespace xrun {

namespace {

SampleRequest request_of(const GenerateOptions& options, const std::vector<int32_t>& prompt,
                         size_t index) {
  SampleRequest request{.prompt = prompt,
                        .samples = options.samples,
                        .max_new_tokens = options.max_new_tokens,
                        .stop_ids = options.stop_ids,
                        .sampling = options.sampling};
  request.record_routes = options.record_routes;
  if (options.max_length > 0) {
    const int64_t room = options.max_length - std::ssize(prompt);
    request.max_new_tokens = std::min(request.max_new_tokens, room);
  }
  if (!options.drafts.empty()) request.drafts = options.drafts[index];
  // Draws depend on this key, so a named prompt has the same answers at any index.
  request.prompt_key = options.prompt_names.empty() ? index : options.prompt_names[index];
  if (options.on_token) {
    // The caller counts samples over all prompts, the sampler within one.
    const size_t first = index * static_cast<size_t>(options.samples);
    request.on_token = [&options, first](int64_t sample, int32_t id) {
      return options.on_token(first + static_cast<size_t>(sample), id);
    };
  }
  return request;
}

}  // namespace

SamplerOptions sampler_options(const GenerateOptions& options) {
  return {.batch = options.batch, .cache_mb = options.cache_mb, .poll = options.poll};
}

std::vector<Generation> generate(Model& model, const std::vector<std::vector<int32_t>>& prompts,
                                 const GenerateOptions& options) {
  for (size_t i = 0; i < prompts.size(); ++i) {
    check_prompt(model.config(), prompts[i], fmt::format("prompt {}", i + 1));
  }
  XRUN_CHECK(options.prompt_names.empty() || options.prompt_names.size() == prompts.size(),
             "{} prompts have {} names", prompts.size(), options.prompt_names.size());
  XRUN_CHECK(options.drafts.empty() || options.drafts.size() == prompts.size(),
             "{} prompts have drafts for {}", prompts.size(), options.drafts.size());
  Sampler sampler(model, sampler_options(options));
  for (size_t i = 0; i < prompts.size(); ++i) {
    sampler.submit(request_of(options, prompts[i], i));
  }
  std::vector<Generation> results;
  // Passes finished groups on at once, so that rewards can be computed while others are sampled.
  const auto hand_on = [&] {
    while (std::optional<SampledGroup> group = sampler.poll()) {
      if (options.finished) {
        options.finished(std::move(group->samples));
        continue;
      }
      for (Generation& one : group->samples) results.push_back(std::move(one));
    }
  };
  while (sampler.step()) {
    hand_on();
    if (options.progress && !options.progress(sampler.counters().tokens)) sampler.cancel_all();
  }
  hand_on();
  // Counted after the last group, cancelled ones included.
  if (options.counted) options.counted(sampler.counters());
  return results;
}

}  // namespace xrun
