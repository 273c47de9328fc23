#pragma once
// From rows of logits: the log-probabilities of several targets, the log-sum-exp, the entropy and
// the top k; and the gradient of the logits from the gradients of all of these.
//
// Sums run as in softmax_rows.h. A logit whose exponential is 0 adds nothing to the entropy, so
// -inf masks a column and gives no NaN. The maximum is subtracted before the scale is applied: at a
// low temperature the product is far from 0, so its rounding could lift a log-prob above 0.

#include "kernels/cpu/softmax_rows.h"
#include "kernels/cpu/vector.h"

namespace xrun::kernels {

// Here s = scale * z over the first `columns` logits z of a row, and p = softmax s. The remaining
// logits, up to `width`, are padding and never read.
struct HeadRows {
  const float* z;  // [rows, width]
  int64_t rows;
  int64_t width;          // elements between two rows
  int64_t columns;        // V, at most width
  float scale;            // above 0
  const int64_t* target;  // [rows, targets] in [0, columns)
  int64_t targets;
  float* logprob;      // [rows, targets] out: s[target] - lse
  float* lse;          // [rows] out: log sum exp s
  float* entropy;      // [rows] out: lse - sum p s; null if not wanted
  int64_t top;         // 0 to columns
  float* top_logprob;  // [rows, top] out: descending; of equal logits the lowest id first
  int64_t* top_id;     // [rows, top] out
};

// dz = scale (sum_i grad_i (e_(id_i) - p) + grad_lse p - grad_entropy p (log p + entropy)), and 0
// in the padding.
struct HeadRowsBackward {
  const float* z;  // [rows, width]
  float* dz;       // [rows, width] out; may be z
  int64_t rows;
  int64_t width;    // elements between two rows
  int64_t columns;  // V, at most width
  float scale;
  const int64_t* id;  // [rows, ids] targets and top k, in [0, columns); may repeat in a row
  const float* grad;  // [rows, ids] of their log-probabilities
  int64_t ids;
  const float* lse;           // [rows]
  const float* grad_lse;      // [rows]
  const float* entropy;       // [rows]; null with grad_entropy
  const float* grad_entropy;  // [rows] or null
};

}  // namespace xrun::kernels

#ifdef XRUN_VECTOR_BYTES

namespace xrun::kernels {

namespace {

struct RowSums {
  double sum;       // of e^d, where d = scale (z - most)
  double weighted;  // of e^d d
};

// Adds in the order of sum_exp, so that a log-prob at scale 1 has the bits of SoftmaxRows.
template <bool kWeighted>
XRUN_INLINE RowSums row_sums(const float* z, int64_t columns, float scale, float most) {
  const VF shift = splat(most);
  RowSums all = {0, 0};
  for (int64_t begin = 0; begin < columns; begin += kSumBlock) {
    const int64_t end = begin + kSumBlock < columns ? begin + kSumBlock : columns;
    // Two sums of exponentials hide the latency of the additions.
    VF s0 = {}, s1 = {}, weighted = {};
    const auto add = [&](int64_t i, int n, VF& sum) {
      const VF d = (load_some(z + i, n) - shift) * scale;
      VF e = exp_of(d);
      for (int lane = n; lane < kLanes; ++lane) e[lane] = 0.0f;  // padding is not a logit
      sum += e;
      if (kWeighted) weighted += e == 0.0f ? VF{} : e * d;
    };
    int64_t i = begin;
    for (; i + 2 * kLanes <= end; i += 2 * kLanes) {
      add(i, kLanes, s0);
      add(i + kLanes, kLanes, s1);
    }
    for (; i < end; i += kLanes) {
      add(i, end - i < kLanes ? static_cast<int>(end - i) : kLanes, s0);
    }
    all.sum += static_cast<double>(sum_of(s0)) + static_cast<double>(sum_of(s1));
    all.weighted += static_cast<double>(sum_of(weighted));
  }
  return all;
}

// The top k form a heap whose root is the worst: the lowest value, of equal values the highest id.
XRUN_INLINE bool is_worse(float value, int64_t id, float than, int64_t than_id) {
  return value < than || (value == than && id > than_id);
}

XRUN_INLINE void swap_entries(float* value, int64_t* id, int64_t a, int64_t b) {
  const float v = value[a];
  const int64_t i = id[a];
  value[a] = value[b], id[a] = id[b];
  value[b] = v, id[b] = i;
}

// Restores the heap below `at` after the entry at `at` was replaced by a better one.
void sink(float* value, int64_t* id, int64_t at, int64_t size) {
  for (;;) {
    int64_t worst = at;
    for (int64_t child = 2 * at + 1; child <= 2 * at + 2 && child < size; ++child) {
      if (is_worse(value[child], id[child], value[worst], id[worst])) worst = child;
    }
    if (worst == at) return;
    swap_entries(value, id, at, worst);
    at = worst;
  }
}

// Sorts the heap, best first: the worst entry moves to the end of what is left of the heap.
void sort_heap(float* value, int64_t* id, int64_t size) {
  for (int64_t last = size - 1; last > 0; --last) {
    swap_entries(value, id, 0, last);
    sink(value, id, 0, last);
  }
}

// For logits in random order, about `columns` comparisons and k log(columns / k) replacements of
// log k steps each. Of a block only the maximum is compared, unless it beats the worst of the top
// k.
void top_of_row(const float* z, int64_t columns, int64_t top, float* value, int64_t* id) {
  for (int64_t i = 0; i < top; ++i) value[i] = z[i], id[i] = i;
  for (int64_t at = top / 2 - 1; at >= 0; --at) sink(value, id, at, top);
  constexpr int64_t kBlock = 16 * kLanes;
  for (int64_t begin = top; begin < columns; begin += kBlock) {
    const int64_t end = begin + kBlock < columns ? begin + kBlock : columns;
    if (!(row_max(z + begin, end - begin) > value[0])) continue;  // nearly every block
    for (int64_t i = begin; i < end; ++i) {
      if (!(z[i] > value[0])) continue;  // of equal values the earlier id stays
      value[0] = z[i], id[0] = i;
      sink(value, id, 0, top);
    }
  }
  sort_heap(value, id, top);
}

void compute(const HeadRows& a) {
  // Two passes over a row give all sums: the first finds the maximum.
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* z = a.z + r * a.width;
    const float most = row_max(z, a.columns);
    const RowSums sums = a.entropy != nullptr ? row_sums<true>(z, a.columns, a.scale, most)
                                              : row_sums<false>(z, a.columns, a.scale, most);
    const double log_sum = __builtin_log(sums.sum);
    a.lse[r] = static_cast<float>(static_cast<double>(most) * a.scale + log_sum);
    if (a.entropy != nullptr) {
      a.entropy[r] = static_cast<float>(log_sum - sums.weighted / sums.sum);
    }
    const auto logprob = [&](float logit) {
      const double below = static_cast<double>(logit) - static_cast<double>(most);
      // One rounding in every instruction set, and in the sampler, which is not compiled for one.
      return static_cast<float>(__builtin_fma(below, static_cast<double>(a.scale), -log_sum));
    };
    for (int64_t m = r * a.targets; m < (r + 1) * a.targets; ++m) {
      a.logprob[m] = logprob(z[a.target[m]]);
    }
    if (a.top == 0) continue;
    float* top = a.top_logprob + r * a.top;
    top_of_row(z, a.columns, a.top, top, a.top_id + r * a.top);
    for (int64_t i = 0; i < a.top; ++i) top[i] = logprob(top[i]);
  }
}

// Returns lse - scale most. At a low temperature both are large and their difference is rounded too
// coarsely, so the sum is computed again.
XRUN_INLINE float log_sum_of(const HeadRowsBackward& a, const float* z, int64_t r, float most) {
  if (a.scale > 1) {
    return static_cast<float>(__builtin_log(row_sums<false>(z, a.columns, a.scale, most).sum));
  }
  return static_cast<float>(a.lse[r] - static_cast<double>(most) * a.scale);
}

// Writes dz of row r. The gradient of each output is a multiple of p, or falls on single ids.
void head_row_backward(const HeadRowsBackward& a, int64_t r) {
  const float* z = a.z + r * a.width;
  float* dz = a.dz + r * a.width;
  double lift = a.grad_lse[r];
  for (int64_t i = r * a.ids; i < (r + 1) * a.ids; ++i) lift -= a.grad[i];
  const float most = row_max(z, a.columns);
  // dz_v = scale p_v lift, where lift = grad_lse - sum grad, plus scale grad at the ids.
  const VF every = splat(static_cast<float>(lift) * a.scale), shift = splat(most);
  const VF log_sum = splat(log_sum_of(a, z, r, most));
  if (a.grad_entropy == nullptr) {
    each_vector(a.columns, [&](int64_t i, int n) {
      const VF d = (load_some(z + i, n) - shift) * a.scale - log_sum;
      store_some(dz + i, every * exp_of(d), n);
    });
  } else {
    const VF c = splat(a.grad_entropy[r] * a.scale), entropy = splat(a.entropy[r]);
    each_vector(a.columns, [&](int64_t i, int n) {
      const VF d = (load_some(z + i, n) - shift) * a.scale - log_sum;
      const VF p = exp_of(d);
      store_some(dz + i, p == 0.0f ? VF{} : p * (every - c * (d + entropy)), n);
    });
  }
  // The weight's padding rows get no gradient, whatever was in the buffer.
  for (int64_t i = a.columns; i < a.width; ++i) dz[i] = 0.0f;
  for (int64_t i = r * a.ids; i < (r + 1) * a.ids; ++i) dz[a.id[i]] += a.grad[i] * a.scale;
}

void compute(const HeadRowsBackward& a) {
  for (int64_t r = 0; r < a.rows; ++r) head_row_backward(a, r);
}

}  // namespace

}  // namespace xrun::kernels

#endif
