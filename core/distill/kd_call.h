#pragma once
// The checked arguments of a distillation loss, with its chunks grouped into blocks.

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

// Groups chunks, given by their first rows on each side [C + 1], into blocks. A block is one chunk,
// or as many as have at most kHeadBlockRows rows on both sides: a product is at its full rate
// there.
std::vector<KdBlock> make_blocks(const std::vector<int64_t>& student,
                                 const std::vector<int64_t>& teacher);

// All arguments of a call except the student's hidden states and weight.
struct KdCall : torch::CustomClassHolder {
  KdOptions options;
  std::shared_ptr<const VocabularyMap> map;
  std::vector<int64_t> student_first, teacher_first;  // [C + 1]
  std::vector<KdBlock> blocks;
  at::Tensor student_index;   // [R] int64, rows of the hidden states
  at::Tensor student_chunk;   // [R] int64
  at::Tensor student_target;  // [R] int64
  int64_t student_columns = 0;
  // Either teachers with the same rows, whose logits are averaged, or cached columns.
  std::vector<KdSide> teachers;
  std::optional<TeacherColumns> cached;
  int64_t teacher_columns = 0;
};

// Build the call of a kd_loss overload; throw what that throws.
c10::intrusive_ptr<KdCall> online_call(const KdSide& student, const std::vector<KdSide>& teachers,
                                       int64_t chunks, const KdOptions& options,
                                       std::shared_ptr<const VocabularyMap> map);
c10::intrusive_ptr<KdCall> cached_call(const KdSide& student, const TeacherColumns& teacher,
                                       int64_t chunks, const KdOptions& options,
                                       std::shared_ptr<const VocabularyMap> map);

// Returns the cached rows of chunk c.
CachedRows cached_rows(const KdCall& call, int64_t c);

}  // namespace xrun
