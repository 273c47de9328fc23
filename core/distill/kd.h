#pragma once
// Distillation losses of aligned chunks, from hidden states and head weights; the logits of all
// rows never exist at once.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "core/distill/kd_options.h"
#include "core/distill/vocabulary_map.h"

namespace xrun {

// One side's predictions. Row r reads hidden[index[r]] and predicts token target[r], which belongs
// to chunk[r]. The rows of a chunk are neighbours, in the order of the text.
struct KdSide {
  at::Tensor hidden;  // [N, D] floating
  at::Tensor weight;  // [V, D] floating, the head
  at::Tensor index;   // [R] int64, rows of hidden
  at::Tensor chunk;   // [R] int64, never falling, from 0 to C - 1
  at::Tensor target;  // [R] int64 below `columns`; only a chain reads it, else it may be undefined
  int64_t columns = 0;  // the first `columns` of V exist, the rest is padding; 0: all of them
};

// A teacher's cached rows, on the CPU, at the temperature of the call.
struct TeacherColumns {
  // [R, k] int64, the same in all rows of a chunk: by falling mean logprob, then by rising id
  // (share_chunk_columns)
  at::Tensor id;
  at::Tensor logprob;     // [R, k] fp32
  at::Tensor chunk = {};  // [R] int64, as in KdSide
};

// Returns one loss per chunk [C], unreduced: fp32, or fp64 if the student's weight is. Only
// student.hidden and student.weight get a gradient; there is no second derivative. support_set.h
// and chunk_loss.cpp have the forms and equations.
//   chunks  C, the number of chunks; each has rows on both sides. C = 0 gives an empty loss, whose
//           gradient is zero.
//   map     for p-kl, gold, h-kl and hybrid; kept until the backward
// The head runs over blocks of whole chunks, about 256 rows per side. Softmax has the type of the
// loss, divergences are summed in fp64. Up to head_mb MiB of gradients of logits are kept for the
// backward, which computes the other blocks again, teacher included. On a CPU head_mb changes no
// bit of losses and gradients, and a loss has the same bits whatever other chunks the call has. On
// another device the products run there, the chunks on the CPU.
// Throws Error for
//   a tensor of another shape or type, or an id out of range
//   chunks that fall or lack a side
//   a map that is missing, is for other vocabularies, or leaves the loss nothing to compare
//   options that check_kd_options refuses
at::Tensor kd_loss(const KdSide& student, const KdSide& teacher, int64_t chunks,
                   const KdOptions& options, std::shared_ptr<const VocabularyMap> map = nullptr);

// Returns the loss against the mean of several teachers' logits, which is the normalised geometric
// mean of their distributions. The teachers have one vocabulary and the rows of the first; padding
// columns are ignored.
at::Tensor kd_loss(const KdSide& student, const std::vector<KdSide>& teachers, int64_t chunks,
                   const KdOptions& options, std::shared_ptr<const VocabularyMap> map = nullptr);

// Returns the loss from cached columns, for p-kl and topk. In fp32 on a CPU it has the bits of the
// loss from logits. Throws Error also for another loss, for a top_k above the cached k, and if the
// rows of a chunk differ in their columns.
at::Tensor kd_loss(const KdSide& student, const TeacherColumns& teacher, int64_t chunks,
                   const KdOptions& options, std::shared_ptr<const VocabularyMap> map = nullptr);

}  // namespace xrun
