// Gated SiLU (Shazeer 2020): silu(g) = g s(g), silu'(g) = s (1 + g (1 - s)), s the logistic.

template <class T>
static void swiglu(const SwiGlu<T>& a) {
  each_vector(a.n, [&](int64_t i, int n) {
    const VF g = load_some(a.gate + i, n);
    const VF silu = round_to(a.gate, g / (1.0f + exp_of(-g)));
    store_some(a.y + i, silu * load_some(a.up + i, n), n);
  });
}

template <class T>
static void swiglu_backward(const SwiGluBackward<T>& a) {
  each_vector(a.n, [&](int64_t i, int n) {
    const VF g = load_some(a.gate + i, n);
    const VF grad = load_some(a.grad + i, n);
    const VF s = 1.0f / (1.0f + exp_of(-g));
    store_some(a.dup + i, grad * (g * s), n);
    store_some(a.dgate + i, grad * load_some(a.up + i, n) * s * (1.0f + g * (1.0f - s)), n);
  });
}
