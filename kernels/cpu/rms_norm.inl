// Root-mean-square norm (Zhang and Sennrich 2019): statistics in fp32, the normalised value rounded
// to the activation's type before the weight, as in transformers.

// Sums f(i, n) over a row, whole vectors first.
template <class F>
XRUN_INLINE double row_sum(int64_t width, F f) {
  VF s0 = {}, s1 = {};
  int64_t i = 0;
  for (; i + 2 * kLanes <= width; i += 2 * kLanes) {
    s0 += f(i, kLanes);
    s1 += f(i + kLanes, kLanes);
  }
  for (; i < width; i += kLanes) {
    s0 += f(i, width - i < kLanes ? static_cast<int>(width - i) : kLanes);
  }
  return static_cast<double>(sum_of(s0)) + static_cast<double>(sum_of(s1));
}

template <class T>
static void rms_norm(const RmsNorm<T>& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const T* x = a.x + r * a.width;
    T* y = a.y + r * a.width;
    const double squares = row_sum(a.width, [&](int64_t i, int n) {
      const VF v = load_some(x + i, n);
      return v * v;
    });
    const float mean = static_cast<float>(squares / static_cast<double>(a.width));
    const float rstd = 1.0f / __builtin_sqrtf(mean + a.eps);
    if (a.rstd != nullptr) a.rstd[r] = rstd;
    each_vector(a.width, [&](int64_t i, int n) {
      const VF normed = round_to(x, load_some(x + i, n) * rstd);
      store_some(y + i, normed * load_some(a.weight + i, n), n);
    });
  }
}

template <class T>
static void rms_norm_backward(const RmsNormBackward<T>& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const T* x = a.x + r * a.width;
    const T* g = a.grad + r * a.width;
    T* dx = a.dx + r * a.width;
    const float rstd = a.rstd[r];
    const double dot = row_sum(a.width, [&](int64_t i, int n) {
      return load_some(g + i, n) * load_some(a.weight + i, n) * (load_some(x + i, n) * rstd);
    });
    const float mean = static_cast<float>(dot / static_cast<double>(a.width));
    each_vector(a.width, [&](int64_t i, int n) {
      const VF grad = load_some(g + i, n);
      const VF xn = load_some(x + i, n) * rstd;
      store_some(dx + i, (grad * load_some(a.weight + i, n) - xn * mean) * rstd, n);
      store_some(a.dweight + i, load_some(a.dweight + i, n) + grad * xn, n);
    });
  }
}
