#pragma once
// Continuations of prompts, decoded together with a KV cache; a finished one frees its slot for the
// next.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/model/sampling.h"

namespace xrun {

class Model;

struct GenerateOptions {
  int64_t max_new_tokens = 128;
  std::vector<int32_t> stop_ids = {};  // a sequence ends with the first of these, which it includes
  int64_t batch = 64;                  // sequences decoded at once
  SamplingOptions sampling = {};
  int64_t samples = 1;  // of each prompt
  // The prompt numbers in draw keys; empty: 0, 1, 2, ...
  std::vector<uint64_t> prompt_names = {};
  // Limit of keys and values; one sequence is always admitted. Fixed rather than measured, so that
  // the same sequences are decoded together on every machine.
  int64_t cache_mb = 4096;
  // Called after every step with the tokens generated so far; false stops early.
  std::function<bool(int64_t tokens)> progress = {};
  // Called with each new token of a sequence (its index in the results), stop ids included; true
  // ends that sequence ("stop").
  std::function<bool(size_t sequence, int32_t id)> on_token = {};
};

struct Generation {
  std::vector<int32_t> ids;          // new tokens, a stop id included
  std::vector<float> logprobs;       // of each id: log softmax(logits / T), T = 1 for greedy tokens
  std::vector<float> logprobs_kept;  // the same over the kept tokens; empty without truncation
  std::string finish;                // "stop", "length" (also the model's own limit), "interrupted"
};

// Returns `samples` continuations a prompt, prompts in order and the samples of each together. At
// most `batch` sequences are in the cache; when one ends, the next prompts are prefilled, packed,
// before the next token of the others. The tokens of a sequence depend on (seed, prompt name,
// sample, position) and its own logits. Never records a graph. Throws Interrupted between tokens
// after a signal (interrupt.h); UsageError for a sampling option out of range; Error if the model
// is not on the CPU, or if a prompt is empty, longer than the model's limit, or holds an id outside
// the vocabulary.
std::vector<Generation> generate(Model& model, const std::vector<std::vector<int32_t>>& prompts,
                                 const GenerateOptions& options);

}  // namespace xrun
