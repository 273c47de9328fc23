#pragma once
// Softmax of rows of logits and the log-probability of a target, in three sweeps over a row that
// fits the second-level cache: maximum, sum of exponentials, scale. Sums run in fp32 lanes over
// blocks of 128 vectors and in fp64 across blocks, which keeps the log-sum-exp of 150,000 logits to
// 1e-7.

#include "kernels/cpu/vector.h"

namespace xrun::kernels {

// Softmax of `rows` rows of x [rows, V], and the log-probabilities of the targets of each row:
// those from first[r] to first[r + 1], at least one.
struct SoftmaxRows {
  float* x;               // [rows, V] logits; probabilities afterwards if `keep`
  const int64_t* first;   // [rows + 1] rising; null: row r has target r alone
  const int64_t* target;  // in [0, V)
  float* logprob;         // as target, out: x[target] - lse
  float* lse;             // [rows] out: log sum exp, may be null
  int64_t rows;
  int64_t width;  // V
  bool keep;      // write the probabilities, minus one at the row's first target
};

// Turns logits into probabilities minus one at the row's first target, given its log-sum-exp.
struct SoftmaxFromLse {
  float* x;               // [rows, V] in and out
  const int64_t* first;   // as in SoftmaxRows
  const int64_t* target;  // as in SoftmaxRows
  const float* lse;       // [rows]
  int64_t rows;
  int64_t width;  // V
};

}  // namespace xrun::kernels

#ifdef XRUN_VECTOR_BYTES

namespace xrun::kernels {

namespace {

constexpr int64_t kSumBlock = 128 * kLanes;

float row_max(const float* x, int64_t width) {
  // Four chains hide the latency of the comparison; the order does not affect a maximum.
  VF m0 = splat(-__builtin_inff()), m1 = m0, m2 = m0, m3 = m0;
  int64_t i = 0;
  for (; i + 4 * kLanes <= width; i += 4 * kLanes) {
    m0 = larger(load(x + i), m0);
    m1 = larger(load(x + i + kLanes), m1);
    m2 = larger(load(x + i + 2 * kLanes), m2);
    m3 = larger(load(x + i + 3 * kLanes), m3);
  }
  float most = max_of(larger(larger(m0, m1), larger(m2, m3)));
  for (; i < width; ++i) most = x[i] > most ? x[i] : most;
  return most;
}

template <bool kWrite>
XRUN_INLINE double sum_exp(float* x, int64_t width, float most) {
  const VF shift = splat(most);
  double sum = 0;
  for (int64_t begin = 0; begin < width; begin += kSumBlock) {
    const int64_t end = begin + kSumBlock < width ? begin + kSumBlock : width;
    VF s0 = {}, s1 = {};
    int64_t i = begin;
    for (; i + 2 * kLanes <= end; i += 2 * kLanes) {
      const VF e0 = exp_of(load(x + i) - shift);
      const VF e1 = exp_of(load(x + i + kLanes) - shift);
      if (kWrite) {
        store(x + i, e0);
        store(x + i + kLanes, e1);
      }
      s0 += e0;
      s1 += e1;
    }
    for (; i < end; i += kLanes) {
      const int n = end - i < kLanes ? static_cast<int>(end - i) : kLanes;
      VF e = exp_of(load_some(x + i, n) - shift);
      for (int lane = n; lane < kLanes; ++lane) e[lane] = 0.0f;  // padding is not a logit
      if (kWrite) store_some(x + i, e, n);
      s0 += e;
    }
    sum += static_cast<double>(sum_of(s0)) + static_cast<double>(sum_of(s1));
  }
  return sum;
}

void scale_row(float* x, int64_t width, float factor) {
  each_vector(width, [&](int64_t i, int n) { store_some(x + i, load_some(x + i, n) * factor, n); });
}

void compute(const SoftmaxRows& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    float* x = a.x + r * a.width;
    const float most = row_max(x, a.width);
    const int64_t begin = a.first == nullptr ? r : a.first[r];
    const int64_t end = a.first == nullptr ? r + 1 : a.first[r + 1];
    // Read now, since the logits are overwritten below.
    for (int64_t e = begin; e < end; ++e) a.logprob[e] = x[a.target[e]];
    const double sum = a.keep ? sum_exp<true>(x, a.width, most) : sum_exp<false>(x, a.width, most);
    // In the order of head_rows.h and of the sampler's draw, so that a token's log-prob has the
    // same bits.
    const double log_sum = __builtin_log(sum), largest = static_cast<double>(most);
    for (int64_t e = begin; e < end; ++e) {
      a.logprob[e] = static_cast<float>(static_cast<double>(a.logprob[e]) - largest - log_sum);
    }
    if (a.lse != nullptr) a.lse[r] = static_cast<float>(largest + log_sum);
    if (!a.keep) continue;
    scale_row(x, a.width, static_cast<float>(1.0 / sum));
    // A row of one target with gradient a has dz = -a (softmax - one-hot). Written here is the
    // gradient of the logits without the factor -a.
    x[a.target[begin]] -= 1.0f;
  }
}

void compute(const SoftmaxFromLse& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    float* x = a.x + r * a.width;
    const VF shift = splat(a.lse[r]);
    each_vector(a.width, [&](int64_t i, int n) {
      store_some(x + i, exp_of(load_some(x + i, n) - shift), n);
    });
    x[a.target[a.first == nullptr ? r : a.first[r]]] -= 1.0f;
  }
}

}  // namespace

}  // namespace xrun::kernels

#endif
