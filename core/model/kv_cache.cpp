// New tokens are appended to the blocks of their slots and then meet all of them in one kernel, a
// token's keys in the blocks of attention.h, so that a sampled token has the bits that it has in a
// pack. Slots that were forked from one another share blocks and are computed together. Only full
// blocks are shared, and full blocks are never written.

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

namespace {

using kernels::kKeyBlock;

// Sequences that share blocks and go into one call: more would leave threads idle in small batches.
constexpr int64_t kSharingTokens = 8;

int64_t blocks_of(int64_t tokens) { return (tokens + kKeyBlock - 1) / kKeyBlock; }

}  // namespace

// fp16 has no kernel, so its keys and values are stored in fp32.
KvCache::KvCache(const ModelConfig& config, at::ScalarType compute, int64_t slots)
    : type_(compute == at::kBFloat16 ? at::kBFloat16 : at::kFloat),
      layers_(config.layers),
      groups_(config.kv_heads),
      head_dim_(config.head_dim),
      width_(kernels::padded_head(config.head_dim)),
      slots_(static_cast<size_t>(slots)) {}

void KvCache::open(int64_t slot, int64_t capacity, int64_t shared) {
  const auto index = static_cast<size_t>(slot);
  if (index >= slots_.size()) slots_.resize(index + 1);
  // Blocks are made when tokens come: most answers end before their limit.
  slots_[index] = {.blocks = {}, .capacity = capacity, .shared = shared};
}

void KvCache::close(int64_t slot) { slots_[static_cast<size_t>(slot)] = SequenceSlot(); }

void KvCache::reserve(int64_t slot, int64_t capacity) {
  SequenceSlot& held = slots_[static_cast<size_t>(slot)];
  XRUN_CHECK(held.length <= capacity, "a slot of {} tokens is too small for the {} that it holds",
             capacity, held.length);
  held.capacity = capacity;
}

void KvCache::truncate(int64_t slot, int64_t length) {
  SequenceSlot& held = slots_[static_cast<size_t>(slot)];
  XRUN_CHECK(length >= 0 && length <= held.length, "a slot of {} tokens cannot be cut to {}",
             held.length, length);
  if (length == held.length) return;
  held.length = length;
  held.shared = std::min(held.shared, length);
  held.blocks.resize(static_cast<size_t>(blocks_of(length)));
  // The next token goes into the last block, which was full and may be shared.
  if (length % kKeyBlock == 0 || held.blocks.back().use_count() == 1) return;
  const KvBlock shared = std::exchange(held.blocks.back(), new_block());
  held.blocks.back()->copy_(*shared);
}

void KvCache::fork(int64_t from, int64_t to) {
  const SequenceSlot& source = slots_[static_cast<size_t>(from)];
  SequenceSlot& target = slots_[static_cast<size_t>(to)];
  XRUN_CHECK(source.length <= target.capacity,
             "a slot of {} tokens is too small for the {} tokens to copy", target.capacity,
             source.length);
  target.length = source.length;
  target.blocks = source.blocks;
  // The last block is not full: both slots will write into it, so one gets a copy.
  if (source.length % kKeyBlock == 0) return;
  target.blocks.back() = new_block();
  target.blocks.back()->copy_(*source.blocks.back());
}

KvCache::KvBlock KvCache::new_block() {
  ++live_;
  // With the last slot that holds it.
  const auto release = [this](at::Tensor* block) {
    --live_;
    delete block;
  };
  // Per head: keys as columns [K, kKeyBlock], values as rows [kKeyBlock, width_].
  return {new at::Tensor(at::empty({layers_, 2, groups_, kKeyBlock * width_}, type_)), release};
}

int64_t KvCache::slot_bytes(int64_t capacity, int64_t shared) const {
  // Only whole blocks are shared: of the last one a fork has its own.
  return (blocks_of(capacity) - shared / kKeyBlock) * layers_ * 2 * groups_ * kKeyBlock * width_ *
         static_cast<int64_t>(at::elementSize(type_));
}

int64_t KvCache::bytes() const {
  // Blocks that exist, and those that open slots may still need.
  int64_t sum = live_ * slot_bytes(kKeyBlock);
  for (const SequenceSlot& slot : slots_) {
    const int64_t held = static_cast<int64_t>(slot.blocks.size()) * kKeyBlock;
    sum += slot_bytes(slot.capacity, std::max(held, slot.shared));
  }
  return sum;
}

void KvCache::use_slots(std::vector<int64_t> slots) {
  for (const int64_t slot : slots) {
    XRUN_CHECK(slot >= 0 && slot < static_cast<int64_t>(slots_.size()),
               "slot {} does not exist: the cache has {} slots", slot, slots_.size());
  }
  used_ = std::move(slots);
}

// Keys (0) or values (1) of one head.
template <class T>
T* KvCache::head_of(const KvBlock& block, int64_t layer, int64_t keys_or_values,
                    int64_t head) const {
  return kernel_data<T>(*block) +
         ((layer * 2 + keys_or_values) * groups_ + head) * kKeyBlock * width_;
}

template <class T>
void KvCache::append(int64_t layer, const at::Tensor& k, const at::Tensor& v,
                     const std::vector<int64_t>& cu_seqlens) {
  const T *const keys = kernel_data<T>(k), *const values = kernel_data<T>(v);
  for (size_t s = 0; s < used_.size(); ++s) {
    const SequenceSlot& slot = used_slot(s);
    for (int64_t t = cu_seqlens[s]; t < cu_seqlens[s + 1]; ++t) {
      const int64_t position = slot.length + t - cu_seqlens[s], at = position % kKeyBlock;
      const KvBlock& block = slot.blocks[static_cast<size_t>(position / kKeyBlock)];
      for (int64_t g = 0; g < groups_; ++g) {
        const int64_t row = (t * groups_ + g) * head_dim_;
        T* const key = head_of<T>(block, layer, 0, g) + at;
        // A key is a column: a vector of the kernel holds one element of several keys.
        for (int64_t i = 0; i < head_dim_; ++i) key[i * kKeyBlock] = keys[row + i];
        std::copy_n(values + row, head_dim_, head_of<T>(block, layer, 1, g) + at * width_);
      }
    }
  }
}

// Sequences that share their first block follow one another in a slice, others stand alone; a long
// one is cut. The end of a slice does not affect results (attention.h).
std::vector<KvCache::Slice> KvCache::slices(const std::vector<int64_t>& cu_seqlens,
                                            int64_t heads) const {
  const int64_t most = kernels::query_block(heads);
  std::vector<Slice> out;
  const KvBlock* shared = nullptr;
  for (size_t s = 0; s < used_.size(); ++s) {
    if (cu_seqlens[s] == cu_seqlens[s + 1]) continue;
    const KvBlock* first = &slots_[static_cast<size_t>(used_[s])].blocks.front();
    // Forks of one prompt share its first block.
    const bool joins = shared != nullptr && *shared == *first &&
                       cu_seqlens[s + 1] - out.back().first <= std::min(most, kSharingTokens);
    shared = first;
    if (joins) {
      out.back().last = cu_seqlens[s + 1];
      continue;
    }
    for (int64_t t = cu_seqlens[s]; t < cu_seqlens[s + 1]; t += most) {
      out.push_back({t, std::min(t + most, cu_seqlens[s + 1])});
    }
  }
  return out;
}

template <class T>
void KvCache::attend_slice(const LayerAttention& of, const Slice& slice, int64_t head) const {
  const std::vector<int64_t>& cu = of.layout.cu_seqlens;
  const auto find = std::upper_bound(cu.begin(), cu.end(), slice.first);
  const auto first = static_cast<size_t>(find - cu.begin()) - 1;
  size_t last = first;
  std::vector<int32_t> positions;
  int64_t end = 0;  // positions of the longest sequence
  // The sequences of the slice, with the position of each of its tokens.
  for (; last < used_.size() && cu[last] < slice.last; ++last) {
    const SequenceSlot& slot = slots_[static_cast<size_t>(used_[last])];
    const int64_t begin = std::max(cu[last], slice.first);
    const int64_t stop = std::min(cu[last + 1], slice.last);
    for (int64_t t = begin; t < stop; ++t) {
      positions.push_back(static_cast<int32_t>(slot.length + t - cu[last]));
      end = std::max(end, int64_t{positions.back()} + 1);
    }
  }
  std::vector<kernels::CachedBlock<T>> blocks;
  for (int64_t position = 0; position < end; position += kKeyBlock) {
    const auto index = static_cast<size_t>(position / kKeyBlock);
    // Neighbours that share the block are one entry: the kernel reads its keys once for all of
    // them.
    const KvBlock* before = nullptr;
    for (size_t s = first; s < last; ++s) {
      const SequenceSlot& slot = slots_[static_cast<size_t>(used_[s])];
      const int64_t stop = std::min(cu[s + 1], slice.last) - slice.first;
      const int64_t length = slot.length + cu[s + 1] - cu[s];
      if (position >= length) {
        before = nullptr;
        continue;
      }
      const KvBlock& block = slot.blocks[index];
      if (before != nullptr && *before == block) {
        blocks.back().last = stop;
      } else {
        blocks.push_back({head_of<T>(block, of.layer, 0, head),
                          head_of<T>(block, of.layer, 1, head), position,
                          std::min(kKeyBlock, length - position),
                          std::max(cu[s], slice.first) - slice.first, stop});
      }
      before = &block;
    }
  }
  const int64_t heads = of.q.size(1) / groups_, row = of.q.size(1) * head_dim_;
  const int64_t at = slice.first * row + head * heads * head_dim_;
  const int64_t tokens = slice.last - slice.first;
  std::vector<float> scratch(
      static_cast<size_t>(kernels::cached_scratch(tokens * heads, head_dim_)));
  kernels::cpu_kernels().run(kernels::CachedAttention<T>{
      kernel_data<T>(of.q) + at, kernel_data<T>(of.y) + at, positions.data(), blocks.data(),
      scratch.data(), tokens, static_cast<int64_t>(blocks.size()), row, of.layout.window, heads,
      head_dim_, static_cast<float>(of.scale)});
}

at::Tensor KvCache::attend(int64_t layer, const at::Tensor& q, const at::Tensor& k,
                           const at::Tensor& v, const AttentionLayout& layout, double scale) {
  const std::vector<int64_t>& cu_seqlens = layout.cu_seqlens;
  XRUN_CHECK(layout.parent.empty(), "the cache takes segments, not a tree of {} nodes",
             layout.parent.size());
  XRUN_CHECK(used_.size() + 1 == cu_seqlens.size(), "the pack has {} segments, {} slots are in use",
             cu_seqlens.size() - 1, used_.size());
  bool fresh = true;
  for (size_t s = 0; s < used_.size(); ++s) {
    SequenceSlot& slot = used_slot(s);
    const int64_t length = slot.length + cu_seqlens[s + 1] - cu_seqlens[s];
    XRUN_CHECK(length <= slot.capacity, "a sequence of {} tokens exceeds the slot's capacity of {}",
               length, slot.capacity);
    while (static_cast<int64_t>(slot.blocks.size()) < blocks_of(length)) {
      slot.blocks.push_back(new_block());
    }
    fresh &= slot.length == 0;
  }
  const at::Tensor queries = q.to(type_).contiguous();
  const at::Tensor y = at::empty_like(queries);
  with_kernel_type(y, [&](auto type_tag) {
    using T = decltype(type_tag);
    // Before the attention: a token sees itself, and the tokens before it in this pack.
    append<T>(layer, k.to(type_).contiguous(), v.to(type_).contiguous(), cu_seqlens);
    if (fresh) return;
    const std::vector<Slice> all = slices(cu_seqlens, q.size(1) / groups_);
    const LayerAttention of{layer, queries, y, layout, scale};
    at::parallel_for(0, static_cast<int64_t>(all.size()) * groups_, 1,
                     [&](int64_t from, int64_t to) {
                       for (int64_t i = from; i < to; ++i) {
                         attend_slice<T>(of, all[static_cast<size_t>(i / groups_)], i % groups_);
                       }
                     });
  });
  // Fresh sequences are a pack; its kernel need not read the keys back.
  return fresh ? varlen_attention(q, k, v, layout, scale) : y.to(q.scalar_type());
}

void KvCache::advance(const std::vector<int64_t>& cu_seqlens) {
  for (size_t s = 0; s < used_.size(); ++s) {
    used_slot(s).length += cu_seqlens[s + 1] - cu_seqlens[s];
  }
}

}  // namespace xrun
