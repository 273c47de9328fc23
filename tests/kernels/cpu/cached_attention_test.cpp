// Queries against cached blocks: grouped heads, unfilled keys, blocks that sequences share.

#include "tests/kernels/cpu/kernel_case.h"

namespace xrun::cached_attention_test {

class CachedAttentionTest : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, CachedAttentionTest, all_instruction_sets(), instruction_set_name);

namespace {

constexpr int64_t kHeads = 3;  // of the key head

// Blocks of `count` keys in order, unfilled ones not a number.
struct KeyCache {
  std::vector<std::vector<float>> keys, values;
  std::vector<kernels::CachedBlock<float>> blocks;

  // Key j is row j of k and v, [n, head_dim].
  KeyCache(const std::vector<float>& k, const std::vector<float>& v, int64_t n, int64_t head_dim,
           int64_t tokens) {
    const int64_t width = kernels::padded_head(head_dim);
    for (int64_t at = 0; at < n; at += kernels::kKeyBlock) {
      const int64_t count = std::min(kernels::kKeyBlock, n - at);
      auto& key = keys.emplace_back(kernels::kKeyBlock * width, std::nanf(""));
      auto& value = values.emplace_back(key);
      for (int64_t j = 0; j < count; ++j) {
        for (int64_t i = 0; i < head_dim; ++i) {
          key[i * kernels::kKeyBlock + j] = k[(at + j) * head_dim + i];
          value[j * width + i] = v[(at + j) * head_dim + i];
        }
      }
      blocks.push_back({nullptr, nullptr, at, count, 0, tokens});
    }
    for (size_t b = 0; b < blocks.size(); ++b) {
      blocks[b].keys = keys[b].data(), blocks[b].values = values[b].data();
    }
  }
};

}  // namespace

TEST_P(CachedAttentionTest, AgreesWithDoublePrecisionAndReadsOnlyFilledKeys) {
  for (const int64_t head_dim : {4, 16, 24, 64}) {
    for (const int64_t n : {1, 2, 19, 64, 300}) {
      for (const int64_t tokens : {int64_t{1}, std::min<int64_t>(n, 7)}) {
        const auto q = random_floats(tokens * kHeads * head_dim, 1, 2.0f);
        const auto k = random_floats(n * head_dim, 2), v = random_floats(k.size(), 3);
        const KeyCache cache(k, v, n, head_dim, tokens);
        std::vector<int32_t> positions;
        for (int64_t t = n - tokens; t < n; ++t) positions.push_back(static_cast<int32_t>(t));
        std::vector<float> y(q.size());
        std::vector<float> scratch(kernels::cached_scratch(tokens * kHeads, head_dim), NAN);
        kernels_->run(kernels::CachedAttention<float>{
            q.data(), y.data(), positions.data(), cache.blocks.data(), scratch.data(), tokens,
            static_cast<int64_t>(cache.blocks.size()), kHeads * head_dim, 0, kHeads, head_dim,
            0.3f});
        for (int64_t r = 0; r < tokens * kHeads; ++r) {
          const int64_t seen = positions[r / kHeads] + 1;
          std::vector<double> p(seen);
          double total = 0;
          for (int64_t j = 0; j < seen; ++j) {
            double score = 0;
            for (int64_t i = 0; i < head_dim; ++i) {
              score += double{q[r * head_dim + i]} * k[j * head_dim + i];
            }
            total += p[j] = std::exp(score * 0.3);
          }
          for (int64_t i = 0; i < head_dim; ++i) {
            double want = 0;
            for (int64_t j = 0; j < seen; ++j) want += p[j] / total * v[j * head_dim + i];
            ASSERT_NEAR(y[r * head_dim + i], want, 2e-6);
          }
        }
      }
    }
  }
}

}  // namespace xrun::cached_attention_test
