#pragma once
// xrun.kd for views and batches: takes the rows of student and teacher from packed batches.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "core/distill/kd_options.h"

namespace xrun {

class Batch;
class FrozenModel;
class MicroBatch;
class Policy;
class View;
struct VocabularyMap;

// A student and its teacher, with the settings of their loss.
struct KdPair {
  Policy& student;
  FrozenModel& teacher;
  KdOptions options = {};
  std::shared_ptr<const VocabularyMap> map = nullptr;  // null: the loss needs none
  // Further teachers of the same vocabulary, whose logits are averaged with the teacher's.
  std::vector<std::shared_ptr<FrozenModel>> others = {};
};

// Returns the loss of each chunk of a view, [C] float32 on its device, in the order of losses by
// chunk. In gradient mode it carries the student's gradient, through the step's one forward.
//   If the batch has a companion in the teacher's vocabulary, the teacher reads its tokens, and the
//   chunks are those of the alignment.
//   Otherwise the teacher reads the batch's own tokens. The chunks are the batch's own or, if it
//   has none, the view's loss rows, [R]. A loss of one vocabulary compares the tokens that both
//   have.
// While a stand-in answers for the student, the loss is a function of log-probs that needs no
// weights. Throws Error for
//   a teacher that reads neither the batch's tokens nor the companion's
//   a view of a part of a micro-batch that is compared by chunk
//   several teachers that differ in vocabulary or have cached columns
at::Tensor kd_loss_of(const View& view, const KdPair& pair);

// Returns the losses of all micro-batches of a batch, without gradient: those by row in batch
// order, those by chunk in the order of the packs.
at::Tensor kd_loss_of(Batch& batch, const KdPair& pair);

// The teacher's head outputs over its own tokens, for the Rt rows that predict a view's chunks: for
// losses written in Lua.
struct ChunkColumns {
  at::Tensor logprob;      // [Rt] fp32
  at::Tensor lse;          // [Rt] fp32
  at::Tensor top_logprob;  // [Rt, k] fp32
  at::Tensor top_id;       // [Rt, k] int64
  at::Tensor chunk;        // [Rt] int64
};

// Returns the k columns of each row at `temperature`. Throws Error for a part of a micro-batch.
ChunkColumns chunk_columns(const View& view, FrozenModel& teacher, int64_t k, double temperature);

}  // namespace xrun
