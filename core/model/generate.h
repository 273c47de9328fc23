#pragma once
// Continuations of prompts, decoded together with a plain KV cache. Greedy for now.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace xrun {

class Model;

struct GenerateOptions {
  int64_t max_new_tokens = 128;
  std::vector<int32_t> stop_ids = {};  // a sequence ends with the first of these, part of its ids
  int64_t batch = 64;                  // sequences decoded at once
  // Called after every token of the batch with the tokens made so far; false stops early.
  std::function<bool(int64_t tokens)> progress = {};
};

struct Generation {
  std::vector<int32_t> ids;     // new tokens, a stop id included
  std::vector<float> logprobs;  // of each, under the model's full softmax
  std::string finish;           // "stop", "length" (also the model's own limit), "interrupted"
};

// Returns one continuation per prompt, in order: at each position the likeliest token, the lowest
// id among equals. Prompts may differ in length; finished sequences leave the batch. Never records
// a graph. Throws Interrupted between tokens if a signal asked for it (interrupt.h); Error if a
// prompt is empty, longer than the model's limit, or holds an id outside the vocabulary.
std::vector<Generation> generate(Model& model, const std::vector<std::vector<int32_t>>& prompts,
                                 const GenerateOptions& options);

}  // namespace xrun
