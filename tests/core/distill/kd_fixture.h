#pragma once
// A student and a teacher of two small vocabularies over the same chunks.

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/philox.h"
#include "core/distill/kd.h"
#include "core/model/ops/linear_head.h"
#include "core/train/models/chunk_columns.h"
#include "tests/gradient_check.h"

namespace xrun {

struct KdProblem {
  KdSide student, teacher;
  int64_t chunks = 0;
  std::shared_ptr<const VocabularyMap> map;  // null where the loss takes none
};

inline at::Tensor drawn_ids(int64_t n, int64_t below, uint64_t seed) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < n; ++i) {
    ids.push_back(static_cast<int64_t>(philox_u64(seed, 0, 0, static_cast<uint64_t>(i)) %
                                       static_cast<uint64_t>(below)));
  }
  return at::tensor(ids, at::kLong);
}

// A side with chunks of the given numbers of tokens; its weight has three padding rows, which hold
// huge logits.
inline KdSide kd_side(const std::vector<int64_t>& sizes, int64_t columns, int64_t width,
                      uint64_t seed) {
  std::vector<int64_t> chunk;
  for (size_t c = 0; c < sizes.size(); ++c) {
    for (int64_t r = 0; r < sizes[c]; ++r) chunk.push_back(static_cast<int64_t>(c));
  }
  const auto rows = std::ssize(chunk);
  KdSide side;
  side.hidden = random_tensor({rows + 3, width}, seed, 2.0);
  side.weight = random_tensor({columns + 3, width}, seed + 1);
  side.weight.narrow(0, columns, 3).mul_(1000);
  std::vector<int64_t> index;  // not the first rows, so that an offset is seen
  for (int64_t r = 0; r < rows; ++r) index.push_back(r + 2);
  side.index = at::tensor(index, at::kLong);
  side.chunk = at::tensor(chunk, at::kLong);
  side.target = drawn_ids(rows, columns, seed + 2);
  side.columns = columns;
  return side;
}

// Student tokens s < Vs / 2 are teacher token s + 1, the others split over two tokens; every third
// of the former is common.
inline VocabularyMap kd_map(int64_t Vs, int64_t Vt) {
  std::vector<int64_t> begin = {0};
  std::vector<int32_t> id;
  std::vector<float> weight;
  std::vector<std::pair<int32_t, int32_t>> common;
  for (int64_t s = 0; s < Vs; ++s) {
    const auto t = static_cast<int32_t>((s + 1) % Vt);
    id.push_back(t);
    if (s < Vs / 2) {
      weight.push_back(1.0f);
      if (s % 3 == 0) common.emplace_back(static_cast<int32_t>(s), t);
    } else {
      weight.push_back(0.75f);
      id.push_back(static_cast<int32_t>((3 * s) % Vt));
      weight.push_back(0.25f);
    }
    begin.push_back(std::ssize(id));
  }
  return make_vocabulary_map(Vs, Vt, begin, id, weight, common);
}

inline bool one_vocabulary(KdLoss loss) { return loss == KdLoss::kTopK || loss == KdLoss::kFull; }

// Chunks of 1, 2 and 9 tokens, on either side.
inline KdProblem kd_problem(KdLoss loss, int64_t Vs = 23, int64_t Vt = 31) {
  const std::vector<int64_t> student = {1, 2, 1, 9, 2, 1, 9}, teacher = {1, 1, 2, 2, 9, 9, 1};
  KdProblem p;
  if (one_vocabulary(loss)) Vt = Vs;
  p.student = kd_side(student, Vs, 6, 10);
  p.teacher = kd_side(teacher, Vt, 5, 20);
  p.chunks = std::ssize(student);
  if (!one_vocabulary(loss) && loss != KdLoss::kUld) {
    p.map = std::make_shared<const VocabularyMap>(kd_map(Vs, Vt));
  }
  return p;
}

inline KdProblem to_type(KdProblem p, at::ScalarType type) {
  for (at::Tensor* x :
       {&p.student.hidden, &p.student.weight, &p.teacher.hidden, &p.teacher.weight}) {
    *x = x->to(type);
  }
  return p;
}

struct KdGradients {
  at::Tensor loss, hidden, weight;
};

// Runs `f(problem)` -> [C] and the backward of its weighted sum.
template <class F>
KdGradients kd_run(KdProblem p, const F& f) {
  const at::Tensor h = p.student.hidden = p.student.hidden.detach().clone().set_requires_grad(true);
  const at::Tensor w = p.student.weight = p.student.weight.detach().clone().set_requires_grad(true);
  const at::Tensor loss = f(p);
  loss.backward(random_tensor(loss.sizes().vec(), 7).to(loss.scalar_type()) + 1.5);
  return {loss.detach(), h.grad(), w.grad()};
}

// The columns that a cache holds: the head's top k, shared by the rows of a chunk.
inline TeacherColumns cached_columns(const KdSide& teacher, int64_t k, double temperature = 1) {
  const at::NoGradGuard no_grad;
  const HeadOptions options = {
      .temperature = temperature, .columns = teacher.columns, .lse = true, .top_k = k};
  HeadResult head =
      linear_head(teacher.hidden, teacher.weight, teacher.index, teacher.target, options);
  const at::Tensor chunk = teacher.chunk.to(at::kInt).contiguous();
  const int32_t* const first = chunk.const_data_ptr<int32_t>();
  share_chunk_columns(head, teacher.hidden.index_select(0, teacher.index), teacher.weight,
                      {first, first + chunk.numel()}, options);
  return {head.top_id, head.top_logprob, teacher.chunk};
}

inline KdGradients run_online(const KdProblem& problem, const KdOptions& options) {
  return kd_run(problem, [&](const KdProblem& p) {
    return kd_loss(p.student, p.teacher, p.chunks, options, p.map);
  });
}

}  // namespace xrun
