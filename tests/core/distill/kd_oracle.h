#pragma once
// Distillation losses from all logits in fp64, by plain LibTorch operations and autograd.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <map>
#include <vector>

#include "core/distill/kd.h"
#include "core/distill/vocabulary_map.h"

namespace xrun {

// The mean of log-probabilities l [n, V] of a chunk, as the log of a distribution [V].
inline at::Tensor oracle_mean(const at::Tensor& l, const at::Tensor& target, ChunkMean mean) {
  const int64_t n = l.size(0);
  if (mean == ChunkMean::kGeometric) return l.mean(0);
  if (mean == ChunkMean::kArithmetic) return at::logsumexp(l, {0}) - std::log(n);
  at::Tensor sum = l[0];
  for (int64_t r = 1; r < n; ++r) sum = sum + l[r][target[r]].clamp_min(std::log(1e-8));
  return sum;
}

inline at::Tensor oracle_ids(const std::vector<int32_t>& ids) {
  return at::tensor(std::vector<int64_t>(ids.begin(), ids.end()), at::kLong);
}

// M [Vs, Vt].
inline at::Tensor oracle_projection(const VocabularyMap& map) {
  at::Tensor M = at::zeros({map.student_vocab, map.teacher_vocab}, at::kDouble);
  for (int64_t t = 0; t < map.teacher_vocab; ++t) {
    for (int64_t e = map.begin[t]; e < map.begin[t + 1]; ++e) M[map.student[e]][t] += map.weight[e];
  }
  return M;
}

// sum q (log q - log p) or, reversed, sum p (log p - log q).
inline at::Tensor oracle_kl(const at::Tensor& log_p, const at::Tensor& log_q, bool reverse) {
  return reverse ? (log_p.exp() * (log_p - log_q)).sum() : (log_q.exp() * (log_q - log_p)).sum();
}

inline at::Tensor oracle_rest(at::Tensor p, at::Tensor q, int64_t most) {
  if (p.numel() == 0 || q.numel() == 0) return at::zeros({}, at::kDouble);
  p = std::get<0>(at::sort(p, 0, /*descending=*/true));
  q = std::get<0>(at::sort(q, 0, /*descending=*/true));
  if (most > 0) {
    const int64_t n = std::min({p.size(0), q.size(0), most});
    return (p.narrow(0, 0, n) - q.narrow(0, 0, n)).abs().sum();
  }
  const int64_t n = std::max(p.size(0), q.size(0));
  const auto padded = [&](const at::Tensor& x) {
    return at::cat({x, at::zeros({n - x.size(0)}, at::kDouble)});
  };
  return (padded(p) - padded(q)).abs().sum();
}

// The loss of one chunk from its log-probabilities s [n, Vs] and t [m, Vt].
inline at::Tensor oracle_chunk(const at::Tensor& s, const at::Tensor& s_target, const at::Tensor& t,
                               const at::Tensor& t_target, const KdOptions& o,
                               const VocabularyMap* map) {
  const auto mean_of = [&](const at::Tensor& l, const at::Tensor& target, ChunkMean published) {
    return oracle_mean(l, target, o.mean.value_or(published));
  };
  const double square = o.temperature * o.temperature;
  const int64_t k = std::min(o.top_k, t.size(1));
  const auto top = [&] { return std::get<1>(at::topk(t.mean(0), k)); };
  const auto normal = [](const at::Tensor& l) { return at::log_softmax(l, 0); };
  switch (o.loss) {
    case KdLoss::kProjected: {
      const at::Tensor K = top();
      // A chain's later tokens divide out.
      const at::Tensor P = o.mean == ChunkMean::kChain
                               ? s[0].exp()
                               : mean_of(s, s_target, ChunkMean::kArithmetic).exp();
      const at::Tensor a = P.matmul(oracle_projection(*map)).index_select(0, K);
      const at::Tensor A = a / (a.sum() + 1e-10);
      const at::Tensor L = o.mean ? normal(oracle_mean(t, t_target, *o.mean).index_select(0, K))
                                  : at::log_softmax(t.index_select(1, K), 1).mean(0);
      return square * oracle_kl((A + 1e-10).log(), L, o.reverse);
    }
    case KdLoss::kTopK:
    case KdLoss::kFull: {
      const at::Tensor K = o.loss == KdLoss::kTopK ? top() : oracle_ids([&] {
        std::vector<int32_t> all;
        for (int32_t v = 0; v < t.size(1); ++v) all.push_back(v);
        return all;
      }());
      const auto side = [&](const at::Tensor& l, const at::Tensor& target) {
        return normal(mean_of(l, target, ChunkMean::kGeometric).index_select(0, K));
      };
      return square * oracle_kl(side(s, s_target), side(t, t_target), o.reverse);
    }
    case KdLoss::kGold:
    case KdLoss::kRelaxed: {
      const at::Tensor S = mean_of(s, s_target, ChunkMean::kGeometric);
      const at::Tensor Q = mean_of(t, t_target, ChunkMean::kGeometric);
      const at::Tensor kl =
          oracle_kl(S.index_select(0, oracle_ids(map->common_student)),
                    Q.index_select(0, oracle_ids(map->common_teacher)), o.reverse);
      return square *
             (kl + oracle_rest(S.exp().index_select(0, oracle_ids(map->rest_student)),
                               Q.exp().index_select(0, oracle_ids(map->rest_teacher)), o.top_k));
    }
    case KdLoss::kUld:
      return oracle_rest(mean_of(s, s_target, ChunkMean::kChain).exp(),
                         mean_of(t, t_target, ChunkMean::kChain).exp(), 0);
    case KdLoss::kHybrid: break;
  }
  const at::Tensor P = mean_of(s, s_target, ChunkMean::kChain).exp();
  const at::Tensor Q = mean_of(t, t_target, ChunkMean::kChain).exp();
  const at::Tensor log_p = P.index_select(0, oracle_ids(map->common_student)).clamp_min(1e-8).log();
  const at::Tensor log_q = Q.index_select(0, oracle_ids(map->common_teacher)).clamp_min(1e-8).log();
  at::Tensor jsd;
  if (o.beta == 0 || o.beta == 1) {
    jsd = oracle_kl(log_p, log_q, o.beta == 1);
  } else {
    const at::Tensor m = ((1 - o.beta) * log_p.exp() + o.beta * log_q.exp()).log();
    jsd = o.beta * oracle_kl(m, log_q, false) + (1 - o.beta) * oracle_kl(m, log_p, false);
  }
  const double w = static_cast<double>(map->common_student.size()) / t.size(1);
  return w * jsd + (1 - w) * oracle_rest(P.index_select(0, oracle_ids(map->rest_student)),
                                         Q.index_select(0, oracle_ids(map->rest_teacher)), 0);
}

// [C] in fp64, for any type of the inputs.
inline at::Tensor kd_oracle(const KdSide& student, const KdSide& teacher, int64_t chunks,
                            const KdOptions& options, const VocabularyMap* map = nullptr) {
  const auto logs = [&](const KdSide& side) {
    const int64_t columns = side.columns > 0 ? side.columns : side.weight.size(0);
    const at::Tensor x = side.hidden.to(at::kDouble).index_select(0, side.index);
    const at::Tensor w = side.weight.to(at::kDouble).narrow(0, 0, columns);
    return at::log_softmax(x.matmul(w.t()) / options.temperature, 1);
  };
  const at::Tensor s = logs(student), t = logs(teacher);
  std::vector<at::Tensor> losses;
  for (int64_t c = 0; c < chunks; ++c) {
    const at::Tensor in_s = (student.chunk == c).nonzero().view(-1);
    const at::Tensor in_t = (teacher.chunk == c).nonzero().view(-1);
    losses.push_back(oracle_chunk(s.index_select(0, in_s), student.target.index_select(0, in_s),
                                  t.index_select(0, in_t), teacher.target.index_select(0, in_t),
                                  options, map));
  }
  return at::stack(losses);
}

}  // namespace xrun
