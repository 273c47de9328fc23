// One query row a head against the cache: scores, softmax, weighted sum, all in fp32.

template <class T>
static void decode_attention(const DecodeAttention<T>& a) {
  const int64_t group = a.heads / a.kv_heads;
  for (int64_t h = 0; h < a.heads; ++h) {
    const int64_t cache = (h / group) * a.capacity * a.head_dim;
    const T* q = a.q + h * a.head_dim;
    float most = -__builtin_inff();
    for (int64_t j = 0; j < a.n; ++j) {
      const T* k = a.k + cache + j * a.head_dim;
      VF sum = {};
      each_vector(a.head_dim,
                  [&](int64_t i, int n) { sum += load_some(q + i, n) * load_some(k + i, n); });
      a.scratch[j] = sum_of(sum) * a.scale;
      most = a.scratch[j] > most ? a.scratch[j] : most;
    }
    const double total = sum_exp<true>(a.scratch, a.n, most);
    const float norm = static_cast<float>(1.0 / total);
    each_vector(a.head_dim, [&](int64_t i, int n) {
      const T* v = a.v + cache + i;
      VF sum = {};
      for (int64_t j = 0; j < a.n; ++j) {
        sum += load_some(v + j * a.head_dim, n) * (a.scratch[j] * norm);
      }
      store_some(a.y + h * a.head_dim + i, sum, n);
    });
  }
}
