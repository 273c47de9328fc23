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

// Returns true if labelled_kd keeps the loss's gradient at the support of each chunk for the
// backward, not rows of V: then head_mb holds logits alone. So do forms that reads_support_alone().
bool keeps_support(const KdOptions& options);

// Returns the loss of kd_loss and the log-probabilities of linear_head for one target per row, over
// all of V at temperature 1. Both have the same bits, except that a projected loss that
// keeps_support is within rounding; so are the gradients of student.hidden and student.weight. Both
// together cost one product forward and two backward. Without keeps_support head_mb holds gradients
// of the logits first, then logits; another head_mb may change the last bits of the weight's
// gradient. student.target is needed. Tensors are on the CPU, the weight is not fp64. Throws Error
// as kd_loss does.
LabelledKd labelled_kd(const KdSide& student, const UnchunkedRows& rest,
                       const std::vector<KdSide>& teachers, int64_t chunks,
                       const KdOptions& options,
                       std::shared_ptr<const VocabularyMap> map = nullptr);
LabelledKd labelled_kd(const KdSide& student, const UnchunkedRows& rest,
                       const TeacherColumns& teacher, int64_t chunks, const KdOptions& options,
                       std::shared_ptr<const VocabularyMap> map = nullptr);

}  // namespace xrun
