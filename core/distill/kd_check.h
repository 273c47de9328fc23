#pragma once
// Checks of the arguments of kd_loss, and the first row of each chunk.

#include <cstdint>
#include <vector>

#include "core/distill/kd.h"

namespace xrun {

// Returns the real columns of a side: `columns`, or all rows of its weight.
int64_t kd_columns(const KdSide& side);

// Throws Error unless the tensors of a side fit each other and its ids are in range. `name` is
// "student" or "teacher". `chain`: the loss reads the targets, so they must be set.
void check_kd_side(const KdSide& side, const char* name, bool chain);

// Throws Error unless `k` cached columns of a teacher that has `columns` suffice for the loss.
void check_cached_loss(const KdOptions& options, int64_t k, int64_t columns);

// Throws Error unless the cached columns suffice for the loss, have fitting shapes, and are in
// range for a teacher that has `columns`.
void check_teacher_columns(const TeacherColumns& teacher, int64_t columns,
                           const KdOptions& options);

// Throws Error unless the loss can compare vocabularies of these sizes with this map (null: none).
void check_kd_vocabularies(const KdOptions& options, int64_t student_columns,
                           int64_t teacher_columns, const VocabularyMap* map);

// Returns the first row of each chunk and, last, the number of rows, [C + 1]. Throws Error if ids
// fall, are out of range, or leave out a chunk.
std::vector<int64_t> first_rows(const at::Tensor& chunk, int64_t chunks, const char* name);

}  // namespace xrun
