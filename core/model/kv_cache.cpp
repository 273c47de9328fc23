// A prefill copies whole segments; a decoding step appends one row per slot and runs the kernel.
// Keys lie transposed in blocks (kernels/cpu/decode_attention.h), so that a sampled token has the
// bits that it has in a pack.

#include "core/model/kv_cache.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/model/ops/attention.h"
#include "core/model/ops/op.h"

namespace xrun {

// fp16 has no kernel, so its keys and values are stored in fp32.
KvCache::KvCache(const ModelConfig& config, at::ScalarType compute, int64_t slots)
    : type_(compute == at::kBFloat16 ? at::kBFloat16 : at::kFloat),
      layers_(config.layers),
      groups_(config.kv_heads),
      head_dim_(config.head_dim),
      width_(kernels::padded_head(config.head_dim)),
      slots_(static_cast<size_t>(slots)),
      lengths_(static_cast<size_t>(slots), 0) {}

void KvCache::open(int64_t slot, int64_t capacity) {
  slots_[static_cast<size_t>(slot)] =
      at::empty({layers_, 2, groups_, kernels::cache_tokens(capacity), width_}, type_);
  clear(slot);
}

void KvCache::close(int64_t slot) {
  slots_[static_cast<size_t>(slot)] = at::Tensor();
  clear(slot);
}

void KvCache::fork(int64_t from, int64_t to) {
  const int64_t n = length(from);
  XRUN_CHECK(n <= capacity(to), "a slot of {} tokens is too small for the {} tokens to copy",
             capacity(to), n);
  const at::Tensor &source = slots_[static_cast<size_t>(from)],
                   &target = slots_[static_cast<size_t>(to)];
  for (int64_t block = 0; block < n; block += kernels::kKeyBlock) {
    const int64_t count = std::min(kernels::kKeyBlock, n - block);
    key_block(target, block, count).copy_(key_block(source, block, count));
  }
  target.select(1, 1).narrow(2, 0, n).copy_(source.select(1, 1).narrow(2, 0, n));
  lengths_[static_cast<size_t>(to)] = n;
}

// Keys [block, block + count) of a slot, [layers, G, K, count].
at::Tensor KvCache::key_block(const at::Tensor& slot, int64_t block, int64_t count) const {
  const int64_t tokens = slot.size(3), stride = kernels::cache_stride(block, tokens);
  return slot.select(1, 0)
      .view({layers_, groups_, tokens * width_})
      .narrow(2, block * width_, stride * width_)
      .view({layers_, groups_, width_, stride})
      .narrow(2, 0, head_dim_)
      .narrow(3, 0, count);
}

int64_t KvCache::capacity(int64_t slot) const {
  const at::Tensor& held = slots_[static_cast<size_t>(slot)];
  return held.defined() ? held.size(3) : 0;
}

int64_t KvCache::slot_bytes(int64_t capacity) const {
  return layers_ * 2 * groups_ * kernels::cache_tokens(capacity) * width_ *
         static_cast<int64_t>(at::elementSize(type_));
}

int64_t KvCache::bytes() const {
  int64_t sum = 0;
  for (size_t s = 0; s < slots_.size(); ++s) sum += slot_bytes(capacity(static_cast<int64_t>(s)));
  return sum;
}

void KvCache::use_slots(std::vector<int64_t> slots) {
  for (const int64_t slot : slots) {
    XRUN_CHECK(slot >= 0 && slot < static_cast<int64_t>(slots_.size()),
               "the cache has {} slots, slot {} does not exist", slots_.size(), slot);
  }
  used_ = std::move(slots);
}

at::Tensor KvCache::attend(int64_t layer, const at::Tensor& q, const at::Tensor& k,
                           const at::Tensor& v, const AttentionLayout& layout, double scale) {
  const std::vector<int64_t>& cu_seqlens = layout.cu_seqlens;
  XRUN_CHECK(layout.parent.empty(), "the cache takes segments, not a tree of {} nodes",
             layout.parent.size());
  XRUN_CHECK(used_.size() + 1 == cu_seqlens.size(), "the pack has {} segments, {} slots are in use",
             cu_seqlens.size() - 1, used_.size());
  // A prefill attends within the pack, a decoding step to the cache; a prompt in pieces would need
  // both.
  bool single = true, fresh = true;
  for (size_t s = 0; s < used_.size(); ++s) {
    const int64_t n = cu_seqlens[s + 1] - cu_seqlens[s];
    single &= n == 1;
    fresh &= length(used_[s]) == 0;
    XRUN_CHECK(length(used_[s]) + n <= capacity(used_[s]),
               "a sequence of {} tokens exceeds the slot's capacity of {}", length(used_[s]) + n,
               capacity(used_[s]));
  }
  XRUN_CHECK(single || fresh, "the cache takes whole prompts or single tokens, not both at once");
  if (!single) return prefill(layer, q, k, v, layout, scale);
  return decode(layer, q.to(type_).contiguous(), k.to(type_).contiguous(), v.to(type_).contiguous(),
                scale, layout.window)
      .to(q.scalar_type());
}

at::Tensor KvCache::prefill(int64_t layer, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const AttentionLayout& layout, double scale) {
  for (size_t s = 0; s < used_.size(); ++s) {
    const int64_t begin = layout.cu_seqlens[s], n = layout.cu_seqlens[s + 1] - begin;
    const at::Tensor& slot = slots_[static_cast<size_t>(used_[s])];
    for (int64_t block = 0; block < n; block += kernels::kKeyBlock) {
      const int64_t count = std::min(kernels::kKeyBlock, n - block);
      key_block(slot, block, count)
          .select(0, layer)
          .copy_(k.narrow(0, begin + block, count).permute({1, 2, 0}));
    }
    slot.select(0, layer)
        .select(0, 1)
        .narrow(1, 0, n)
        .narrow(2, 0, head_dim_)
        .copy_(v.narrow(0, begin, n).permute({1, 0, 2}));
  }
  return varlen_attention(q, k, v, layout, scale);
}

at::Tensor KvCache::decode(int64_t layer, const at::Tensor& q, const at::Tensor& k,
                           const at::Tensor& v, double scale, int64_t window) {
  const int64_t heads = q.size(1);
  at::Tensor y = at::empty_like(q);
  with_kernel_type(y, [&](auto unit) {
    using T = decltype(unit);
    at::parallel_for(0, static_cast<int64_t>(used_.size()), 1, [&](int64_t from, int64_t to) {
      std::vector<float> scratch(
          static_cast<size_t>(kernels::decode_scratch(heads / groups_, head_dim_)));
      for (int64_t s = from; s < to; ++s) {
        const int64_t slot = used_[static_cast<size_t>(s)], n = length(slot);
        const at::Tensor& held = slots_[static_cast<size_t>(slot)];
        const int64_t tokens = held.size(3), stride = kernels::cache_stride(n, tokens);
        const int64_t head_size = tokens * width_;
        T* const keys = kernel_data<T>(held) + layer * 2 * groups_ * head_size;
        T* const values = keys + groups_ * head_size;
        for (int64_t g = 0; g < groups_; ++g) {
          const int64_t row = (s * groups_ + g) * head_dim_;
          T* const key = keys + g * head_size + kernels::cached_key(n, width_);
          for (int64_t i = 0; i < head_dim_; ++i) key[i * stride] = kernel_data<T>(k)[row + i];
          std::copy_n(kernel_data<T>(v) + row, head_dim_, values + g * head_size + n * width_);
        }
        kernels::cpu_kernels().run(kernels::DecodeAttention<T>{
            kernel_data<T>(q) + s * heads * head_dim_, keys, values,
            kernel_data<T>(y) + s * heads * head_dim_, scratch.data(), n + 1, tokens, window, heads,
            groups_, head_dim_, static_cast<float>(scale)});
      }
    });
  });
  return y;
}

void KvCache::advance(const std::vector<int64_t>& cu_seqlens) {
  for (size_t s = 0; s < used_.size(); ++s) {
    lengths_[static_cast<size_t>(used_[s])] += cu_seqlens[s + 1] - cu_seqlens[s];
  }
}

}  // namespace xrun
