// A division, as whoever scores the draw divides too: a product with 1 / T would round elsewhere.

static void exp_row(const ExpRow& a) {
  if (a.temperature != 1.0f) {
    each_vector(a.width, [&](int64_t i, int n) {
      store_some(a.x + i, load_some(a.x + i, n) / splat(a.temperature), n);
    });
  }
  *a.most = row_max(a.x, a.width);
  __builtin_memcpy(a.e, a.x, static_cast<unsigned long>(a.width) * sizeof(float));
  *a.sum = sum_exp<true>(a.e, a.width, *a.most);
}
