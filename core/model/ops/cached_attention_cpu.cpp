// A token's key is a column of its block, so that a sampled token has the bits that it has in a
// pack (kernels/cpu/cached_attention.h). A call of the kernel takes a slice of the new tokens.
// Neighbouring sequences that share their first block are in one slice; others are alone in theirs.

#include "core/model/ops/cached_attention_cpu.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>

#include "core/model/ops/op.h"
#include "kernels/cpu/cached_attention.h"

namespace xrun {

namespace {

using kernels::kKeyBlock;

// The most new tokens of a call for several sequences: more would leave threads idle in small
// batches.
constexpr int64_t kSharingTokens = 8;

// The new tokens [first, last) of a forward that one call of the kernel takes.
struct TokenSlice {
  int64_t first, last;
};

// Returns the keys (0) or values (1) of one head.
template <class T>
T* head_of(const CpuBlocks& cache, int64_t block, int64_t keys_or_values, int64_t head) {
  return kernel_data<T>(cache.blocks[static_cast<size_t>(block)]) +
         ((cache.layer * 2 + keys_or_values) * cache.kv_heads + head) * kKeyBlock *
             kernels::padded_head(cache.head_dim);
}

template <class T>
void write_tokens(const CpuBlocks& cache, const std::vector<CachedSequence>& sequences,
                  const at::Tensor& k, const at::Tensor& v) {
  const T *const keys = kernel_data<T>(k), *const values = kernel_data<T>(v);
  const int64_t K = cache.head_dim, width = kernels::padded_head(K);
  int64_t t = 0;
  for (const CachedSequence& s : sequences) {
    for (int64_t position = s.length - s.tokens; position < s.length; ++position, ++t) {
      const int64_t block = s.blocks[static_cast<size_t>(position / kKeyBlock)];
      const int64_t at = position % kKeyBlock;
      for (int64_t g = 0; g < cache.kv_heads; ++g) {
        const int64_t row = (t * cache.kv_heads + g) * K;
        T* const key = head_of<T>(cache, block, 0, g) + at;
        // A key is a column, since a vector of the kernel holds one element of several keys.
        for (int64_t i = 0; i < K; ++i) key[i * kKeyBlock] = keys[row + i];
        std::copy_n(values + row, K, head_of<T>(cache, block, 1, g) + at * width);
      }
    }
  }
}

// Returns the first row of each sequence, then the number of all rows.
std::vector<int64_t> first_rows(const std::vector<CachedSequence>& sequences) {
  std::vector<int64_t> cu = {0};
  for (const CachedSequence& s : sequences) cu.push_back(cu.back() + s.tokens);
  return cu;
}

// Cuts long sequences: where a slice ends does not affect results (tree_attention.h).
std::vector<TokenSlice> token_slices(const std::vector<CachedSequence>& sequences,
                                     const std::vector<int64_t>& cu, int64_t heads) {
  const int64_t most = kernels::query_block(heads);
  std::vector<TokenSlice> out;
  int64_t shared = -1;
  for (size_t s = 0; s < sequences.size(); ++s) {
    if (sequences[s].tokens == 0) continue;
    // Forks of one prompt share its first block.
    const int64_t first = sequences[s].blocks.front();
    const bool joins =
        shared == first && cu[s + 1] - out.back().first <= std::min(most, kSharingTokens);
    shared = first;
    if (joins) {
      out.back().last = cu[s + 1];
      continue;
    }
    for (int64_t t = cu[s]; t < cu[s + 1]; t += most) {
      out.push_back({t, std::min(t + most, cu[s + 1])});
    }
  }
  return out;
}

// One layer's attention: queries and results, [T, H, K].
struct LayerAttention {
  const CpuBlocks& cache;
  const std::vector<CachedSequence>& sequences;
  const std::vector<int64_t>& cu;  // first_rows of the sequences
  const at::Tensor &q, &y;
  double scale;
  int64_t window;
};

// Returns the blocks that the sequences [first, last) of a slice attend to, in the order of
// positions up to `end`. Neighbours that share a block have one entry, whose keys the kernel reads
// once for all of them.
template <class T>
std::vector<kernels::CachedBlock<T>> blocks_of_slice(const LayerAttention& of,
                                                     const TokenSlice& slice, int64_t head,
                                                     size_t first, size_t last, int64_t end) {
  std::vector<kernels::CachedBlock<T>> blocks;
  for (int64_t position = 0; position < end; position += kKeyBlock) {
    const auto index = static_cast<size_t>(position / kKeyBlock);
    int64_t before = -1;
    for (size_t s = first; s < last; ++s) {
      const CachedSequence& sequence = of.sequences[s];
      const int64_t stop = std::min(of.cu[s + 1], slice.last) - slice.first;
      if (position >= sequence.length) {
        before = -1;
        continue;
      }
      const int64_t block = sequence.blocks[index];
      if (before == block) {
        blocks.back().last = stop;
      } else {
        blocks.push_back({head_of<T>(of.cache, block, 0, head),
                          head_of<T>(of.cache, block, 1, head), position,
                          std::min(kKeyBlock, sequence.length - position),
                          std::max(of.cu[s], slice.first) - slice.first, stop});
      }
      before = block;
    }
  }
  return blocks;
}

template <class T>
void attend_tokens(const LayerAttention& of, const TokenSlice& slice, int64_t head) {
  const auto find = std::upper_bound(of.cu.begin(), of.cu.end(), slice.first);
  const auto first = static_cast<size_t>(find - of.cu.begin()) - 1;
  size_t last = first;
  std::vector<int32_t> positions;
  int64_t end = 0;  // positions of the longest sequence
  // The sequences of the slice, with the position of each of its tokens.
  for (; last < of.sequences.size() && of.cu[last] < slice.last; ++last) {
    const CachedSequence& sequence = of.sequences[last];
    const int64_t begin = std::max(of.cu[last], slice.first);
    const int64_t stop = std::min(of.cu[last + 1], slice.last);
    for (int64_t t = begin; t < stop; ++t) {
      const int64_t position = sequence.length - (of.cu[last + 1] - t);
      positions.push_back(static_cast<int32_t>(position));
      end = std::max(end, position + 1);
    }
  }
  const auto blocks = blocks_of_slice<T>(of, slice, head, first, last, end);
  const int64_t H = of.q.size(1), K = of.cache.head_dim;
  const int64_t heads = H / of.cache.kv_heads, row = H * K;
  const int64_t at = slice.first * row + head * heads * K, tokens = slice.last - slice.first;
  std::vector<float> scratch(static_cast<size_t>(kernels::cached_scratch(tokens * heads, K)));
  kernels::cpu_kernels().run(kernels::CachedAttention<T>{
      kernel_data<T>(of.q) + at, kernel_data<T>(of.y) + at, positions.data(), blocks.data(),
      scratch.data(), tokens, static_cast<int64_t>(blocks.size()), row, of.window, heads, K,
      static_cast<float>(of.scale)});
}

}  // namespace

void append_to_blocks(const CpuBlocks& cache, const std::vector<CachedSequence>& sequences,
                      const at::Tensor& k, const at::Tensor& v) {
  with_kernel_type(
      k, [&](auto type_tag) { write_tokens<decltype(type_tag)>(cache, sequences, k, v); });
}

at::Tensor cached_attention_cpu(const at::Tensor& q, const CpuBlocks& cache,
                                const std::vector<CachedSequence>& sequences, double scale,
                                int64_t window) {
  const at::Tensor y = at::empty_like(q);
  const std::vector<int64_t> cu = first_rows(sequences);
  const auto slices = token_slices(sequences, cu, q.size(1) / cache.kv_heads);
  const LayerAttention of{cache, sequences, cu, q, y, scale, window};
  const int64_t groups = cache.kv_heads, items = std::ssize(slices) * groups;
  with_kernel_type(q, [&](auto type_tag) {
    at::parallel_for(0, items, 1, [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; ++i) {
        attend_tokens<decltype(type_tag)>(of, slices[static_cast<size_t>(i / groups)], i % groups);
      }
    });
  });
  return y;
}

}  // namespace xrun
