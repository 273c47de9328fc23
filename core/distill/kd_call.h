#pragma once
// The arguments of a distillation loss, checked, and its chunks in blocks.

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/distill/chunk_loss.h"
#include "core/distill/kd.h"

namespace xrun {

// Half-open ranges of chunks and of both sides' rows.
struct KdBlock {
  int64_t chunk, chunk_end, student, student_end, teacher, teacher_end;
};

// Returns the blocks of chunks given by their first rows on each side, [C + 1]: one chunk, or as
// many as fit kHeadBlockRows rows on both sides, since a product reaches its full rate there.
std::vector<KdBlock> make_blocks(const std::vector<int64_t>& student,
                                 const std::vector<int64_t>& teacher);

// Everything of a call but the student's hidden states and weight.
struct KdCall : torch::CustomClassHolder {
  KdOptions options;
  std::shared_ptr<const VocabularyMap> map;
  std::vector<int64_t> student_first, teacher_first;  // [C + 1]
  std::vector<KdBlock> blocks;
  at::Tensor student_index;   // [R] int64, rows of the hidden states
  at::Tensor student_chunk;   // [R] int64
  at::Tensor student_target;  // [R] int64
  int64_t student_columns = 0;
  // One of the two. The logits of several teachers are averaged; their rows are the same.
  std::vector<KdSide> teachers;
  std::optional<TeacherColumns> cached;
  int64_t teacher_columns = 0;
};

// Build the checked call of each kd_loss overload; throw as it does.
c10::intrusive_ptr<KdCall> online_call(const KdSide& student, const std::vector<KdSide>& teachers,
                                       int64_t chunks, const KdOptions& options,
                                       std::shared_ptr<const VocabularyMap> map);
c10::intrusive_ptr<KdCall> cached_call(const KdSide& student, const TeacherColumns& teacher,
                                       int64_t chunks, const KdOptions& options,
                                       std::shared_ptr<const VocabularyMap> map);

// The cached rows of chunk c.
CachedRows cached_rows(const KdCall& call, int64_t c);

}  // namespace xrun
