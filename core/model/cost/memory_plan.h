#pragma once
// The memory that training a model will hold, by kind, computed before anything is loaded.

#include <cstdint>
#include <string>
#include <vector>

#include "core/model/cost/step_memory.h"
#include "core/model/weights/hf_config.h"

namespace xrun {

struct PlannedModel {
  ModelConfig config;
  MemoryShape shape;
  int64_t optimizer = 0;  // models of one optimizer are trained together, those of others later
};

struct MemoryKind {
  std::string name;
  int64_t bytes = 0;
};

// Returns the bytes by kind at the peak of a step after the first, as memory_count sees them,
// without kinds of 0 bytes. With several ranks it is the plan of one: its ranges, the buckets of
// gradients, and the blocks of models in ranges that it has fetched.
//   weights      masters, or the frozen weights and an adapter's masters
//   copies       of the masters in bf16
//   gradients    those that exist at the peak
//   optimizer    AdamW's moments
//   average      averages of the weights (xrun.ema)
//   reference    the weights of frozen copies of the policy
//   frozen       the weights of frozen models: teachers, foreign references
//   activations  saved by the forward of one micro-batch for its backward (block_memory)
//   head         loss rows and their softmax, and the gradients of a loss of distillation
//   sampling     keys and values of answers, and the packed weights that decode them
//   working      temporaries
// The peak is at one of seven points: the forward of a reference; the backward of the head, of the
// last block or of a shared prefix; the end of a micro-batch that reads such a prefix; the end of
// the step; sampling, which needs no gradients. A kind is capped at 2^56 bytes, since sizes may be
// absurd.
std::vector<MemoryKind> memory_plan(const ModelConfig& config, const MemoryShape& shape);
// Returns the plan of all models of a run, at the step of the optimizer with the highest peak.
std::vector<MemoryKind> memory_plan(const std::vector<PlannedModel>& models);

int64_t total_bytes(const std::vector<MemoryKind>& plan);

// Returns "optimizer 1.1 GB, activations 960 MB, ...", largest first.
std::string describe_kinds(const std::vector<MemoryKind>& plan);
// Returns the sum, followed by describe_kinds(): "3.1 GB of tensors: optimizer 1.1 GB, ...".
std::string describe_plan(const std::vector<MemoryKind>& plan);

}  // namespace xrun
