// One query against the cache, with grouped heads and unused capacity.

#include "tests/kernels/kernel_case.h"

namespace xrun::decode_attention_test {

class DecodeAttentionTest : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, DecodeAttentionTest, all_instruction_sets(), instruction_set_name);

TEST_P(DecodeAttentionTest, AgreesWithDoublePrecisionAndReadsOnlyFilledRows) {
  const int64_t heads = 6, kv_heads = 2;
  for (const int64_t head_dim : {4, 16, 24, 64}) {
    for (const int64_t n : {1, 2, 19, 300}) {
      const int64_t capacity = n + 5;
      const auto q = random_floats(heads * head_dim, 1, 2.0f);
      auto k = random_floats(kv_heads * capacity * head_dim, 2), v = k;
      for (size_t i = 0; i < v.size(); ++i) v[i] = k[v.size() - 1 - i];
      for (int64_t g = 0; g < kv_heads; ++g) {  // what is beyond n must not matter
        for (int64_t i = n * head_dim; i < capacity * head_dim; ++i) {
          k[g * capacity * head_dim + i] = v[g * capacity * head_dim + i] = std::nanf("");
        }
      }
      std::vector<float> y(q.size()), scratch(n);
      kernels_->run(kernels::DecodeAttention<float>{q.data(), k.data(), v.data(), y.data(),
                                                    scratch.data(), n, capacity, heads, kv_heads,
                                                    head_dim, 0.3f});
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t base = (h / 3) * capacity * head_dim;
        std::vector<double> p(n);
        double total = 0;
        for (int64_t j = 0; j < n; ++j) {
          double score = 0;
          for (int64_t i = 0; i < head_dim; ++i) {
            score += double{q[h * head_dim + i]} * k[base + j * head_dim + i];
          }
          total += p[j] = std::exp(score * 0.3);
        }
        for (int64_t i = 0; i < head_dim; ++i) {
          double want = 0;
          for (int64_t j = 0; j < n; ++j) want += p[j] / total * v[base + j * head_dim + i];
          ASSERT_NEAR(y[h * head_dim + i], want, 2e-6);
        }
      }
    }
  }
}

}  // namespace xrun::decode_attention_test
