// New tokens are appended to the blocks of their slots and then meet all of them in one kernel, a
// token's keys in the blocks of attention.h, so that a sampled token has the bits that it has in a
// pack. Slots that were forked from one another share blocks and are computed together. Only full
// blocks are shared, and full blocks are never written. On other devices blocks are rows of a pool,
// which library calls gather.

#include "core/model/kv_cache.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/model/model.h"
#include "core/model/ops/attention.h"
#include "core/model/ops/cached_attention.h"
#include "core/model/ops/device.h"
#include "core/model/ops/op.h"

namespace xrun {

namespace {

using kernels::kKeyBlock;

// Sequences that share blocks and go into one call: more would leave threads idle in small batches.
constexpr int64_t kSharingTokens = 8;

int64_t blocks_of(int64_t tokens) { return (tokens + kKeyBlock - 1) / kKeyBlock; }

}  // namespace

// On the CPU fp16 has no kernel, so its keys and values are stored in fp32.
KvCache::KvCache(const ModelConfig& config, at::ScalarType compute, int64_t slots,
                 c10::Device device)
    : device_(device),
      type_(compute == at::kBFloat16 || !device.is_cpu() ? compute : at::kFloat),
      layers_(config.layers),
      groups_(config.kv_heads),
      head_dim_(config.head_dim),
      width_(device.is_cpu() ? kernels::padded_head(config.head_dim) : config.head_dim),
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
  held.blocks.back() = copy_of(held.blocks.back());
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
  target.blocks.back() = copy_of(source.blocks.back());
}

KvCache::KvBlock KvCache::new_block() {
  auto block = std::make_unique<Block>();
  if (device_.is_cpu()) {
    // Per head: keys as columns [K, kKeyBlock], values as rows [kKeyBlock, width_].
    block->tensor = at::empty({layers_, 2, groups_, kKeyBlock * width_}, type_);
  } else {
    if (free_.empty()) grow_pools();
    block->place = free_.back();
    free_.pop_back();
  }
  ++live_;
  // With the last slot that holds it.
  return {block.release(), [this](Block* one) {
            --live_;
            if (one->place >= 0) free_.push_back(one->place);
            delete one;
          }};
}

KvCache::KvBlock KvCache::copy_of(const KvBlock& block) {
  const KvBlock copy = new_block();
  if (device_.is_cpu()) copy->tensor.copy_(block->tensor);
  for (at::Tensor& pool : pools_) {
    pool.select(2, copy->place).copy_(pool.select(2, block->place));
  }
  return copy;
}

// To all blocks that open slots may come to hold, so that decoding rarely copies a pool; the caller
// limits these.
void KvCache::grow_pools() {
  constexpr int64_t kLeast = 8;  // more places each time
  const int64_t had = pools_.empty() ? 0 : pools_.front().size(2);
  const int64_t places = std::max(had + kLeast, bytes() / slot_bytes(kKeyBlock));
  pools_.resize(static_cast<size_t>(layers_));
  for (at::Tensor& pool : pools_) {
    // Zeros: library calls multiply what is not written yet with probabilities of 0.
    const at::Tensor grown = at::zeros({2, groups_, places, kKeyBlock, head_dim_},
                                       at::TensorOptions(device_).dtype(type_));
    if (had > 0) grown.narrow(2, 0, had).copy_(pool);
    pool = grown;
  }
  for (int64_t place = places; place-- > had;) free_.push_back(place);
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
  written_.reset();
  calls_.reset();
}

// Keys (0) or values (1) of one head.
template <class T>
T* KvCache::head_of(const KvBlock& block, int64_t layer, int64_t keys_or_values,
                    int64_t head) const {
  return kernel_data<T>(block->tensor) +
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

std::vector<CachedSequence> KvCache::sequences(const std::vector<int64_t>& cu_seqlens) const {
  std::vector<CachedSequence> all(used_.size());
  for (size_t s = 0; s < all.size(); ++s) {
    const SequenceSlot& slot = slots_[static_cast<size_t>(used_[s])];
    all[s].tokens = cu_seqlens[s + 1] - cu_seqlens[s];
    all[s].length = slot.length + all[s].tokens;
    for (const KvBlock& block : slot.blocks) all[s].blocks.push_back(block->place);
  }
  return all;
}

// k, v [T, J, K] to the places of the new tokens.
void KvCache::write_pool(int64_t layer, const at::Tensor& k, const at::Tensor& v,
                         const std::vector<int64_t>& cu_seqlens) {
  if (!written_.defined()) {
    std::vector<int64_t> places;
    for (const CachedSequence& s : sequences(cu_seqlens)) {
      for (int64_t position = s.length - s.tokens; position < s.length; ++position) {
        places.push_back(s.blocks[static_cast<size_t>(position / kKeyBlock)] * kKeyBlock +
                         position % kKeyBlock);
      }
    }
    written_ = on_device(int64_tensor(places), device_);
  }
  const at::Tensor& pool = pools_[static_cast<size_t>(layer)];
  const auto write = [&](int64_t keys_or_values, const at::Tensor& x) {
    pool.select(0, keys_or_values)
        .view({groups_, -1, head_dim_})
        .index_copy_(1, written_, x.transpose(0, 1));
  };
  write(0, k);
  write(1, v);
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
  if (!device_.is_cpu()) {
    write_pool(layer, k, v, cu_seqlens);
    if (fresh) return varlen_attention(q, k, v, layout, scale);
    if (!calls_) {
      calls_ =
          cached_calls(sequences(cu_seqlens), {q.size(1), groups_, head_dim_, kKeyBlock}, device_);
    }
    const at::Tensor& pool = pools_[static_cast<size_t>(layer)];
    return cached_attention(q, pool.select(0, 0), pool.select(0, 1), *calls_, scale, layout.window);
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
