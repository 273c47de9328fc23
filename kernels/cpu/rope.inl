// Rotary positions (Su et al. 2021), half-split pairs: (a, b) -> (a c - b s, b c + a s).

template <class T>
static void rope(const Rope<T>& a) {
  const int64_t half = a.head_dim / 2;
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* c = a.cos + r * half;
    const float* s = a.sin + r * half;
    for (int64_t h = 0; h < a.heads; ++h) {
      const int64_t at = (r * a.heads + h) * a.head_dim;
      each_vector(half, [&](int64_t i, int n) {
        const VF low = load_some(a.x + at + i, n);
        const VF high = load_some(a.x + at + half + i, n);
        const VF cosine = load_some(c + i, n);
        const VF sine = a.inverse ? -load_some(s + i, n) : load_some(s + i, n);
        store_some(a.y + at + i, low * cosine - high * sine, n);
        store_some(a.y + at + half + i, high * cosine + low * sine, n);
      });
    }
  }
}
