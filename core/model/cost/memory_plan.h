#pragma once
// The memory that training a model will hold, by kind, computed before anything is loaded.

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/model/ops/linear.h"
#include "core/model/weights/adapter.h"
#include "core/model/weights/hf_config.h"

namespace xrun {

struct MemoryShape {
  c10::ScalarType dtype = c10::ScalarType::Float;
  GemmType gemm = GemmType::kStorage;
  int64_t tokens = 0;          // of the largest micro-batch
  int64_t loss_rows = 0;       // of that micro-batch
  bool several = false;        // several micro-batches in a step
  int64_t prefix_tokens = 0;   // computed once for several of them, beside `tokens` (held_prefix.h)
  bool several_items = false;  // such a group is not alone in its step
  int64_t head_mb = 1024;
  bool recompute = false;
  std::optional<AdapterOptions> adapter = std::nullopt;  // trained instead of the weights
  std::vector<std::string> train = {};  // patterns of what is trained; empty: all weights
  int64_t averages = 0;                 // fp32 averages of the trained weights
  int64_t references = 0;               // frozen copies that are loaded beside the policy
  int64_t reference_tokens = 0, reference_rows = 0;  // of the largest pack that they compute
  // Sampling between updates, on the policy's device.
  int64_t sampling_cache = 0;    // bytes of keys and values; 0: it samples none
  int64_t sampling_prompts = 0;  // tokens of prompts in one forward
  int64_t sampling_rows = 0;     // of logits in one product
  bool sampling_packs = false;   // a packed copy of the weights
  bool trains = true;            // false: no optimizer updates the masters
  bool frozen = false;           // a teacher or foreign reference: only read, in the storage type
  int64_t optimizers = 1;        // each with moments of the trained weights
  bool scores = false;           // trained through a value head, without the vocabulary projection
  // Teachers whose whole distributions the loss reads (xrun.kd): rows of the largest vocabulary
  // projection, sum of their widths, bytes of fp32 copies of their projections.
  int64_t teacher_vocab = 0, teacher_width = 0, teacher_copies = 0;
  bool teacher_support = false;  // the loss keeps gradients at a few columns alone
  int64_t teacher_top = 0;       // columns of a row in a teacher's cache; 0: there is none
  int64_t ranks = 1;             // that share the model; the plan is that of one of them
  int64_t level = 0;             // what they share (dist.level); 0 with one rank
};

struct PlannedModel {
  ModelConfig config;
  MemoryShape shape;
  int64_t turn = 0;  // models of one turn are trained together, turns one after the other
};

struct MemoryKind {
  std::string name;
  int64_t bytes = 0;
};

// Returns the bytes by kind at the peak of a step after the first, as memory_count sees them,
// without kinds of 0 bytes. Of several ranks they are those of one: its ranges, the buckets of
// gradients, and the blocks of sharded models that are here whole.
//   weights      masters, or the frozen weights and an adapter's masters
//   copies       of the masters in bf16
//   gradients    that exist at the peak
//   optimizer    AdamW's moments
//   average      averages of the weights (xrun.ema)
//   reference    the weights of frozen copies of the policy
//   frozen       the weights of frozen models: teachers, foreign references
//   activations  saved by the forward of one micro-batch for its backward (block_memory)
//   head         loss rows and their softmax, and the gradients of a loss of distillation
//   sampling     keys and values of answers, and the packed weights that decode them
//   working      temporaries
// The peak is one of seven: the forward of a reference, the backward of the head, of the last block
// or of a shared prefix, the end of a micro-batch that reads one, the end of the step, or sampling,
// which needs no gradients. Sizes may be absurd: sums are capped at 2^56 bytes per kind.
std::vector<MemoryKind> memory_plan(const ModelConfig& config, const MemoryShape& shape);
// Returns the plan of all models of a run, at the turn with the highest peak.
std::vector<MemoryKind> memory_plan(const std::vector<PlannedModel>& models);

int64_t total_bytes(const std::vector<MemoryKind>& plan);

// "optimizer 1.1 GB, activations 960 MB, ...", largest first.
std::string describe_kinds(const std::vector<MemoryKind>& plan);
// Returns the sum, followed by describe_kinds(): "3.1 GB of tensors: optimizer 1.1 GB, ...".
std::string describe_plan(const std::vector<MemoryKind>& plan);

}  // namespace xrun
