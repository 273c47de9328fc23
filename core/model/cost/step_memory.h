#pragma once
// The memory of one model in a step: the bytes that stay from step to step, and the peak above
// them.

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
  int64_t tokens = 0;         // of the largest micro-batch
  int64_t loss_rows = 0;      // of that micro-batch
  bool several = false;       // several micro-batches in a step
  int64_t prefix_tokens = 0;  // computed once for several of them, beside `tokens` (held_prefix.h)
  int64_t items = 1;          // of a step: micro-batches, or groups of them with one held prefix
  int64_t head_mb = 1024;
  bool recompute = false;
  std::optional<AdapterOptions> adapter = std::nullopt;  // trained instead of the weights
  std::vector<std::string> train = {};                   // patterns of trained weights; empty: all
  int64_t averages = 0;                                  // fp32 averages of the trained weights
  int64_t references = 0;  // frozen copies that are loaded beside the policy
  int64_t reference_tokens = 0, reference_rows = 0;  // of the largest pack that they compute
  // Sampling between updates, on the policy's device.
  int64_t sampling_cache = 0;    // bytes of keys and values; 0: nothing is sampled
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
  bool teacher_support = false;  // the loss keeps gradients at a few columns only
  int64_t teacher_top = 0;       // columns of a row in a teacher's cache; 0: there is none
  int64_t ranks = 1;             // the processes that train together; the plan is that of one
  int64_t level = 0;             // what they share (dist.level); 0 with one rank
};

// Bytes at a peak, above those that stay.
struct PeakBytes {
  double gradients = 0, activations = 0, head = 0, sampling = 0, working = 0;
  double total() const { return gradients + activations + head + sampling + working; }
};

// Bytes that stay from step to step.
struct ResidentBytes {
  double weights = 0, copies = 0, optimizer = 0, average = 0, reference = 0, frozen = 0;
};

struct StepMemory {
  ResidentBytes held;
  PeakBytes peak;  // at the point of the step where its total is the largest
};

// Returns the memory of a step after the first; memory_plan.h lists the kinds and the points.
StepMemory step_memory(const ModelConfig& config, const MemoryShape& shape);

}  // namespace xrun
