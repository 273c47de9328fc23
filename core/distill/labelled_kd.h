#pragma once
// A distillation loss and the log-probs of the trained tokens, from one product with the head.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "core/distill/kd.h"

namespace xrun {

// Rows of the student that are in no chunk.
struct UnchunkedRows {
  at::Tensor index;   // [U] int64, rows of the student's hidden
  at::Tensor target;  // [U] int64 in [0, V), the tokens that they predict
};

struct LabelledKd {
  at::Tensor loss;     // [C], as kd_loss
  at::Tensor logprob;  // [R + U] fp32: of student.target, then of the unchunked rows
};

// Returns true if labelled_kd keeps the gradient of the loss at each chunk's support, not in rows
// of V, so that head_mb holds logits alone: for forms that reads_support_alone().
bool keeps_support(const KdOptions& options);

// Returns the loss of kd_loss and the log-probabilities of linear_head for one target per row, over
// all of V at temperature 1, for one product forward and two backward. Requires student.target,
// tensors on the CPU, and a weight that is not fp64. Throws Error as kd_loss does.
//   bits     those of kd_loss and linear_head; within rounding are a projected loss that
//            keeps_support, and the gradients of student.hidden and student.weight
//   head_mb  holds logits; without keeps_support gradients of the logits come first. Another
//            head_mb may change the last bits of the weight's gradient.
LabelledKd labelled_kd(const KdSide& student, const UnchunkedRows& rest,
                       const std::vector<KdSide>& teachers, int64_t chunks,
                       const KdOptions& options,
                       std::shared_ptr<const VocabularyMap> map = nullptr);
LabelledKd labelled_kd(const KdSide& student, const UnchunkedRows& rest,
                       const TeacherColumns& teacher, int64_t chunks, const KdOptions& options,
                       std::shared_ptr<const VocabularyMap> map = nullptr);

}  // namespace xrun
