// A prefill copies whole segments; a decoding step appends one row per slot and runs the kernel.

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
      width_(config.head_dim),
      slots_(static_cast<size_t>(slots)),
      lengths_(static_cast<size_t>(slots), 0) {}

void KvCache::open(int64_t slot, int64_t capacity) {
  slots_[static_cast<size_t>(slot)] = at::empty({layers_, 2, groups_, capacity, width_}, type_);
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
  slots_[static_cast<size_t>(to)].narrow(3, 0, n).copy_(
      slots_[static_cast<size_t>(from)].narrow(3, 0, n));
  lengths_[static_cast<size_t>(to)] = n;
}

int64_t KvCache::capacity(int64_t slot) const {
  const at::Tensor& held = slots_[static_cast<size_t>(slot)];
  return held.defined() ? held.size(3) : 0;
}

int64_t KvCache::slot_bytes(int64_t capacity) const {
  return layers_ * 2 * groups_ * capacity * width_ * static_cast<int64_t>(at::elementSize(type_));
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
    const at::Tensor held = slots_[static_cast<size_t>(used_[s])].select(0, layer);
    const auto target = [&](int64_t which) {
      return held.select(0, which).narrow(1, 0, n).permute({1, 0, 2});
    };
    target(0).copy_(k.narrow(0, begin, n));
    target(1).copy_(v.narrow(0, begin, n));
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
      std::vector<float> scratch;
      for (int64_t s = from; s < to; ++s) {
        const int64_t slot = used_[static_cast<size_t>(s)], n = length(slot), room = capacity(slot);
        // keys [G, room, K] of this layer, then values: the kernel reads one head's rows in
        // sequence
        T* const keys =
            kernel_data<T>(slots_[static_cast<size_t>(slot)]) + layer * 2 * groups_ * room * width_;
        T* const values = keys + groups_ * room * width_;
        for (int64_t g = 0; g < groups_; ++g) {
          const int64_t to_row = (g * room + n) * width_, from_row = (s * groups_ + g) * width_;
          std::copy_n(kernel_data<T>(k) + from_row, width_, keys + to_row);
          std::copy_n(kernel_data<T>(v) + from_row, width_, values + to_row);
        }
        // The new token is at index n; `first` is the oldest key that it sees.
        const int64_t first = window > 0 ? std::max<int64_t>(0, n + 1 - window) : 0;
        scratch.resize(static_cast<size_t>(n + 1 - first));
        kernels::cpu_kernels().run(kernels::DecodeAttention<T>{
            kernel_data<T>(q) + s * heads * width_, keys + first * width_, values + first * width_,
            kernel_data<T>(y) + s * heads * width_, scratch.data(), n + 1 - first, room, heads,
            groups_, width_, static_cast<float>(scale)});
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
