#pragma once
// Continuations of a list of prompts: the sampler, run until all are finished.

#include <cstdint>
#include <functional>
#include <vector>

#include "core/rollout/sampler.h"

namespace xrun {

class Model;

struct GenerateOptions {
  int64_t max_new_tokens = kAnswerTokens;
  int64_t max_length = 0;  // tokens of a prompt and its answer; 0: only the model's own limit
  std::vector<int32_t> stop_ids = {};  // a sequence ends with the first of these, which it includes
  int64_t batch = 64;                  // sequences decoded at once
  SamplingOptions sampling = {};
  int64_t samples = 1;  // per prompt
  // The prompt numbers in draw keys; empty: 0, 1, 2, ...
  std::vector<uint64_t> prompt_names = {};
  int64_t cache_mb = 4096;  // SamplerOptions::cache_mb
  // [prompts] SampleRequest::drafts of each; empty: none.
  std::vector<std::vector<std::vector<int32_t>>> drafts = {};
  bool record_routes = false;  // SampleRequest::record_routes
  // Called after every step with the tokens generated so far; returning false stops early.
  std::function<bool(int64_t tokens)> progress = {};
  std::function<void()> poll = {};  // SamplerOptions::poll
  // Called with each new token of a sequence (its index in the results), stop ids included;
  // returning true ends that sequence ("stop").
  std::function<bool(size_t sequence, int32_t id)> on_token = {};
  // Called at the end with the counts of all sequences.
  std::function<void(const SamplerCounters& counters)> counted = {};
  // Takes the samples of a prompt once they and those of all prompts before it are finished, while
  // others may still be sampled. Empty: generate() returns them.
  std::function<void(std::vector<Generation> samples)> finished = {};
};

// Returns the sampler's part of the options.
SamplerOptions sampler_options(const GenerateOptions& options);

// Returns `samples` continuations per prompt, prompts in order and the samples of each together;
// nothing if options.finished took them.
// Throws as Sampler::submit and step; the message for a prompt has its number.
std::vector<Generation> generate(Model& model, const std::vector<std::vector<int32_t>>& prompts,
                                 const GenerateOptions& options);

}  // namespace xrun
