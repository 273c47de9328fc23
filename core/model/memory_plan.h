#pragma once
// What training a model will hold in memory, by kind, before anything is loaded.

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/model/weights/adapter.h"
#include "core/model/weights/hf_config.h"
#include "core/model/ops/linear.h"

namespace xrun {

struct MemoryShape {
  c10::ScalarType dtype = c10::ScalarType::Float;
  GemmType gemm = GemmType::kStorage;
  int64_t tokens = 0;     // of the largest micro-batch
  int64_t loss_rows = 0;  // of it
  bool several = false;   // micro-batches in a step
  int64_t head_mb = 1024;
  bool recompute = false;
  std::optional<AdapterOptions> adapter = std::nullopt;  // trained in place of the weights
  int64_t references = 0;  // frozen twins that are loaded beside the policy
  bool trains = true;      // false: masters that no optimizer has
  int64_t optimizers = 1;  // that hold moments of what is trained
  bool scores = false;     // trained through a value head: the vocabulary takes no part
};

struct PlannedModel {
  ModelConfig config;
  MemoryShape shape;
  int64_t turn = 0;  // models of one turn are trained together, turns one after another
};

struct MemoryKind {
  std::string name;
  int64_t bytes = 0;
};

// Bytes by kind at the fullest moment of a step after the first, as memory_count sees them; kinds
// of nothing are left out:
//   weights      masters, or the frozen weights and an adapter's masters
//   copies       of the masters in bf16
//   gradients    those that lie there at that moment
//   optimizer    AdamW's moments
//   reference    the weights of frozen twins
//   activations  what the backward of one micro-batch needs of its forward
//   head         loss rows and their softmax
//   working      what comes and goes
// The fullest moment is one of three: the backward of the head, that of the last block, or the end.
// Any sizes will do: sums that no machine has end at 2^56 bytes a kind.
std::vector<MemoryKind> memory_plan(const ModelConfig& config, const MemoryShape& shape);
// The same of all models of a run, at the fullest turn.
std::vector<MemoryKind> memory_plan(const std::vector<PlannedModel>& models);

int64_t total_bytes(const std::vector<MemoryKind>& plan);

// Bytes of a model's weights in a type.
int64_t weight_bytes(const ModelConfig& config, c10::ScalarType dtype);

// "optimizer 1.1 GB, activations 960 MB, ...", largest first.
std::string describe_kinds(const std::vector<MemoryKind>& plan);
// The same behind their sum: "3.1 GB: optimizer 1.1 GB, ...".
std::string describe_plan(const std::vector<MemoryKind>& plan);

}  // namespace xrun
