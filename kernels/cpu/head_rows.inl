// Sums as softmax_rows.inl takes them: fp32 lanes within a block, fp64 across blocks. A logit whose
// exponential is 0 adds nothing to the entropy, so -inf is a masked column and no NaN. The largest
// logit is taken off before the scale is put on: at a low temperature the rounding of their product
// would be that of a number far from 0, and log-probs could come out above it.

struct RowSums {
  double sum, weighted;  // of e^d and of e^d d, where d = scale (z - most)
};

template <bool kWeighted>
XRUN_INLINE RowSums row_sums(const float* z, int64_t columns, float scale, float most) {
  const VF shift = splat(most);
  RowSums all = {0, 0};
  for (int64_t begin = 0; begin < columns; begin += kSumBlock) {
    const int64_t size = begin + kSumBlock < columns ? kSumBlock : columns - begin;
    VF sum = {}, weighted = {};
    each_vector(size, [&](int64_t i, int n) {
      const VF d = (load_some(z + begin + i, n) - shift) * scale;
      VF e = exp_of(d);
      for (int lane = n; lane < kLanes; ++lane) e[lane] = 0.0f;  // padding is no logit
      sum += e;
      if (kWeighted) weighted += e == 0.0f ? VF{} : e * d;
    });
    all.sum += static_cast<double>(sum_of(sum));
    all.weighted += static_cast<double>(sum_of(weighted));
  }
  return all;
}

// The top k lie in a heap whose root is the worst: the lowest value, of equal ones the highest id.
XRUN_INLINE bool is_worse(float value, int64_t id, float than, int64_t than_id) {
  return value < than || (value == than && id > than_id);
}

static void sink(float* value, int64_t* id, int64_t at, int64_t size) {
  for (;;) {
    int64_t worst = at;
    for (int64_t child = 2 * at + 1; child <= 2 * at + 2 && child < size; ++child) {
      if (is_worse(value[child], id[child], value[worst], id[worst])) worst = child;
    }
    if (worst == at) return;
    const float v = value[at];
    const int64_t i = id[at];
    value[at] = value[worst], id[at] = id[worst];
    value[worst] = v, id[worst] = i;
    at = worst;
  }
}

static void sort_heap(float* value, int64_t* id, int64_t size) {
  for (int64_t last = size - 1; last > 0; --last) {
    const float v = value[last];
    const int64_t i = id[last];
    value[last] = value[0], id[last] = id[0];
    value[0] = v, id[0] = i;
    sink(value, id, 0, last);
  }
}

static void top_of_row(const float* z, int64_t columns, int64_t top, float* value, int64_t* id) {
  for (int64_t i = 0; i < top; ++i) value[i] = z[i], id[i] = i;
  for (int64_t at = top / 2 - 1; at >= 0; --at) sink(value, id, at, top);
  constexpr int64_t kBlock = 16 * kLanes;
  for (int64_t begin = top; begin < columns; begin += kBlock) {
    const int64_t end = begin + kBlock < columns ? begin + kBlock : columns;
    if (!(row_max(z + begin, end - begin) > value[0])) continue;  // nearly every block
    for (int64_t i = begin; i < end; ++i) {
      if (!(z[i] > value[0])) continue;  // of equal ones the earlier stays
      value[0] = z[i], id[0] = i;
      sink(value, id, 0, top);
    }
  }
  sort_heap(value, id, top);
}

static void head_rows(const HeadRows& a) {
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
      return static_cast<float>(static_cast<double>(logit - most) * a.scale - log_sum);
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

// lse - scale most; of a low temperature both are large, and it is summed again.
XRUN_INLINE float log_sum_of(const HeadRowsBackward& a, const float* z, int64_t r, float most) {
  if (a.scale > 1) {
    return static_cast<float>(__builtin_log(row_sums<false>(z, a.columns, a.scale, most).sum));
  }
  return static_cast<float>(a.lse[r] - static_cast<double>(most) * a.scale);
}

static void head_row_backward(const HeadRowsBackward& a, int64_t r) {
  const float* z = a.z + r * a.width;
  float* dz = a.dz + r * a.width;
  double lift = a.grad_lse[r];
  for (int64_t i = r * a.ids; i < (r + 1) * a.ids; ++i) lift -= a.grad[i];
  const float most = row_max(z, a.columns);
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
  for (int64_t i = a.columns; i < a.width; ++i) dz[i] = 0.0f;
  for (int64_t i = r * a.ids; i < (r + 1) * a.ids; ++i) dz[a.id[i]] += a.grad[i] * a.scale;
}

static void head_rows_backward(const HeadRowsBackward& a) {
  for (int64_t r = 0; r < a.rows; ++r) head_row_backward(a, r);
}
