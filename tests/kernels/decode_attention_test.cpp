// One query against the cache, with grouped heads and unused capacity.

#include "tests/kernels/kernel_case.h"

namespace xrun::decode_attention_test {

class DecodeAttentionTest : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, DecodeAttentionTest, all_instruction_sets(), instruction_set_name);

TEST_P(DecodeAttentionTest, AgreesWithDoublePrecisionAndReadsOnlyFilledRows) {
  const int64_t heads = 6, kv_heads = 2;
  for (const int64_t head_dim : {4, 16, 24, 64}) {
    for (const int64_t n : {1, 2, 19, 64, 300}) {
      const int64_t tokens = kernels::cache_tokens(n + 5), width = kernels::padded_head(head_dim);
      const auto q = random_floats(heads * head_dim, 1, 2.0f);
      const auto k = random_floats(kv_heads * n * head_dim, 2), v = random_floats(k.size(), 3);
      // Tokens that are not filled must not matter.
      std::vector<float> keys(kv_heads * tokens * width, std::nanf("")), values = keys;
      for (int64_t g = 0; g < kv_heads; ++g) {
        for (int64_t j = 0; j < n; ++j) {
          for (int64_t i = 0; i < head_dim; ++i) {
            const int64_t from = (g * n + j) * head_dim + i, head = g * tokens * width;
            keys[head + kernels::cached_key(j, width) + i * kernels::cache_stride(j, tokens)] =
                k[from];
            values[head + j * width + i] = v[from];
          }
        }
      }
      std::vector<float> y(q.size()), scratch(kernels::decode_scratch(3, head_dim));
      kernels_->run(kernels::DecodeAttention<float>{q.data(), keys.data(), values.data(), y.data(),
                                                    scratch.data(), n, tokens, 0, heads, kv_heads,
                                                    head_dim, 0.3f});
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t base = (h / 3) * n * head_dim;
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
