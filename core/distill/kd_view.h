#pragma once
// xrun.kd over micro-batches: the rows of student and teacher by chunk, from a packed batch.

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

// Returns the loss of each chunk of a view, [C] float32 on its device, with the student's gradient
// in gradient mode. If the teacher has the batch's vocabulary, or one that extends it, it reads the
// batch's own tokens, and a loss of one vocabulary compares the tokens of both: the
// chunks are those of the batch, and without any the view's loss rows, [R]. Otherwise it reads the
// companion, and the chunks are the batch's, in the order of losses by chunk. The student's hidden
// states are those of the step's one forward. While a stand-in answers for the student, the loss is
// a function of the stand-ins for log-probs that needs no weights. Throws Error for a teacher that
// reads neither tokens, for a part of an aligned micro-batch, and for several teachers of different
// vocabularies or with cached columns.
at::Tensor kd_loss_of(const View& view, const KdPair& pair);

// Returns the losses of all micro-batches of a batch, without gradient, in batch order; chunks of a
// companion are in the order of the packs.
at::Tensor kd_loss_of(Batch& batch, const KdPair& pair);

// The teacher's head outputs over its own tokens, for the Rt rows that predict a view's chunks.
// Losses written in Lua read them.
struct ChunkColumns {
  at::Tensor logprob;      // [Rt] fp32
  at::Tensor lse;          // [Rt] fp32
  at::Tensor top_logprob;  // [Rt, k] fp32
  at::Tensor top_id;       // [Rt, k] int64
  at::Tensor chunk;        // [Rt] int64
};
ChunkColumns chunk_columns(const View& view, FrozenModel& teacher, int64_t k, double temperature);

}  // namespace xrun
