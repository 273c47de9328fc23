#pragma once
// Distillation losses of aligned chunks, from hidden states and head weights, never from all
// logits.

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

// A teacher's rows from a cache, at the temperature of the call, on the CPU.
struct TeacherColumns {
  // [R, k] int64, the same for the rows of a chunk: by falling mean logprob, of equal ones the
  // lowest first (share_chunk_columns)
  at::Tensor id;
  at::Tensor logprob;     // [R, k] fp32
  at::Tensor chunk = {};  // [R] int64, as in KdSide
};

// Returns one loss per chunk [C], unreduced: fp32, or fp64 for a student's weight in fp64. The
// gradient goes to student.hidden and student.weight alone. support_set.h and chunk_loss.cpp have
// the forms and equations.
//   chunks  C, the number of chunks; each has rows on both sides
//   map     for p-kl, gold, h-kl and hybrid; kept until the backward
// Softmax is fp32 whatever the inputs are, divergences are summed in fp64. Blocks of whole chunks,
// about 256 rows per side, are computed one after the other. Up to head_mb MiB of gradients of
// logits wait for the backward; the blocks beyond are computed again, teacher included. On a CPU a
// loss has the same bits in any call and for any head_mb, and so have the gradients of one call for
// any head_mb. Tensors on another device multiply there; their chunks are computed on the CPU. C =
// 0 gives an empty result with a gradient of zero. There is no second derivative. Throws Error for
// another shape or type, an id out of range, chunks that fall or lack a side, a map that is missing
// or of other vocabularies, no common token, or options that check_kd_options refuses.
at::Tensor kd_loss(const KdSide& student, const KdSide& teacher, int64_t chunks,
                   const KdOptions& options, std::shared_ptr<const VocabularyMap> map = nullptr);

// Returns the loss against the mean of several teachers' logits, all of one vocabulary: the
// normalised geometric mean of their distributions. All have the rows of the first; padding columns
// are ignored.
at::Tensor kd_loss(const KdSide& student, const std::vector<KdSide>& teachers, int64_t chunks,
                   const KdOptions& options, std::shared_ptr<const VocabularyMap> map = nullptr);

// Returns the loss from cached columns, for p-kl and topk, in fp32 on a CPU with the bits of the
// other form. Throws
// Error for another loss, for a top_k above the cached k, and for rows of a chunk with other
// columns.
at::Tensor kd_loss(const KdSide& student, const TeacherColumns& teacher, int64_t chunks,
                   const KdOptions& options, std::shared_ptr<const VocabularyMap> map = nullptr);

}  // namespace xrun
