#pragma once
// Attention of the newest token of a sequence against cached keys and values, with the bits of the
// same row in a pack: the cache holds keys in the blocks of attention.h, transposed, so that the
// tiles read it where it lies.

#include "kernels/cpu/attention.h"

namespace xrun::kernels {

// Tokens that a cache allocates for `capacity`: whole vectors of every instruction set.
constexpr int64_t cache_tokens(int64_t capacity) { return (capacity + 15) / 16 * 16; }

// Tokens of the block that holds token n, in a cache of cache_tokens: its stride.
constexpr int64_t cache_stride(int64_t n, int64_t tokens) {
  const int64_t left = tokens - n / kKeyBlock * kKeyBlock;
  return left < kKeyBlock ? left : kKeyBlock;
}

// Element of token n and dimension 0 within the keys of one head; dimension i is i cache_stride on.
constexpr int64_t cached_key(int64_t n, int64_t width) {
  return n / kKeyBlock * kKeyBlock * width + n % kKeyBlock;
}

// y = softmax(scale q k^T) v of the last of n cached tokens, for each query head of one sequence.
// Query head h reads key head h / (heads / kv_heads).
template <class T>
struct DecodeAttention {
  const T* q;      // [heads, K]
  const T* k;      // [kv_heads, tokens * width]: blocks [width, cache_stride], of which K rows and
                   // n tokens are filled
  const T* v;      // [kv_heads, tokens, width]
  T* y;            // [heads, K]
  float* scratch;  // decode_scratch floats
  int64_t n, tokens, window;  // cache_tokens; the last `window` tokens are seen, 0: all
  int64_t heads, kv_heads, head_dim;
  float scale;
};

constexpr int64_t decode_scratch(int64_t heads, int64_t head_dim) {
  return heads * (2 * padded_head(head_dim) + 17) + 6 * kKeyBlock;
}

}  // namespace xrun::kernels

#ifdef XRUN_VECTOR_BYTES

namespace xrun::kernels {

namespace {

template <class T>
void compute(const DecodeAttention<T>& a) {
  const int64_t heads = a.heads / a.kv_heads, width = padded_head(a.head_dim);
  const auto position = static_cast<int32_t>(a.n - 1);
  float* const scores = a.scratch + 2 * heads * width;
  ForwardTiles<T> f{a.scratch,
                    a.scratch + heads * width,
                    reinterpret_cast<RowSum*>(scores + kTileRows * kKeyBlock),
                    scores,
                    heads,
                    width,
                    a.head_dim,
                    nullptr,
                    nullptr,
                    0};
  const int64_t oldest = a.window > 0 ? greater(0, a.n - a.window) : 0;
  for (int64_t g = 0; g < a.kv_heads; ++g) {
    const int64_t cache = g * a.tokens * width, at = g * heads * a.head_dim;
    for (int64_t r = 0; r < heads; ++r) begin_row(f, r, a.q + at + r * a.head_dim, a.scale);
    for (int64_t block = oldest / kKeyBlock * kKeyBlock; block < a.n; block += kKeyBlock) {
      const int64_t count = smaller(kKeyBlock, a.n - block);
      f.keys = a.k + cache + block * width;
      f.values = a.v + cache + block * width;
      f.stride = cache_stride(block, a.tokens);
      const SeenKeys seen = seen_keys(position, block, count, a.window);
      for (int64_t row = 0; row < heads; row += kTileRows) {
        attend(f, &position, block, count, a.window, row, smaller(kTileRows, heads - row), seen);
      }
    }
    for (int64_t r = 0; r < heads; ++r) end_row(f, r, a.y + at + r * a.head_dim);
  }
}

}  // namespace

}  // namespace xrun::kernels

#endif
