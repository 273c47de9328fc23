// New tokens are appended to the blocks of their slots before they attend to these blocks. Slots
// that were forked from one another share blocks and are computed together. Only full blocks are
// shared, and full blocks are never written. On the CPU each block is a tensor of its own; on other
// devices it is a part of a pool, from which library calls gather.

#include "core/model/kv_cache.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/model/model.h"
#include "core/model/ops/attention.h"
#include "core/model/ops/cached_attention.h"
#include "core/model/ops/cached_attention_cpu.h"
#include "core/model/ops/device.h"
#include "core/model/ops/op.h"

namespace xrun {

namespace {

using kernels::kKeyBlock;

int64_t blocks_of(int64_t tokens) { return (tokens + kKeyBlock - 1) / kKeyBlock; }

}  // namespace

// On the CPU fp16 has no kernel, so its keys and values are stored in fp32.
KvCache::KvCache(const ModelConfig& config, at::ScalarType compute, int64_t slots,
                 c10::Device device)
    : device_(device),
      type_(compute == at::kBFloat16 || !device.is_cpu() ? compute : at::kFloat),
      layers_(config.layers),
      kv_heads_(config.kv_heads),
      head_dim_(config.head_dim),
      width_(device.is_cpu() ? kernels::padded_head(config.head_dim) : config.head_dim),
      slots_(static_cast<size_t>(slots)) {}

void KvCache::open(int64_t slot, int64_t capacity, int64_t shared) {
  const auto index = static_cast<size_t>(slot);
  if (index >= slots_.size()) slots_.resize(index + 1);
  // Blocks are made when tokens arrive, since most answers end before their limit.
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
  // The next token is written to the last block, which was full and may be shared.
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
  // The last block is not full, and both slots will write to it, so one gets a copy.
  if (source.length % kKeyBlock == 0) return;
  target.blocks.back() = copy_of(source.blocks.back());
}

KvCache::KvBlock KvCache::new_block() {
  if (free_.empty()) grow();
  const int64_t place = free_.back();
  if (device_.is_cpu()) {
    blocks_[static_cast<size_t>(place)] =
        at::empty({layers_, 2, kv_heads_, kKeyBlock * width_}, type_);
  }
  free_.pop_back();
  ++live_;
  // The block is freed with the last slot that holds it.
  return {new int64_t(place), [this](const int64_t* freed) {
            --live_;
            if (device_.is_cpu()) blocks_[static_cast<size_t>(*freed)].reset();
            free_.push_back(*freed);
            delete freed;
          }};
}

KvCache::KvBlock KvCache::copy_of(const KvBlock& block) {
  const KvBlock copy = new_block();
  if (device_.is_cpu()) {
    blocks_[static_cast<size_t>(*copy)].copy_(blocks_[static_cast<size_t>(*block)]);
  }
  for (at::Tensor& pool : pools_) pool.select(2, *copy).copy_(pool.select(2, *block));
  return copy;
}

void KvCache::grow() {
  if (!device_.is_cpu()) return grow_pools();
  free_.push_back(std::ssize(blocks_));
  blocks_.emplace_back();
}

// Grows the pools to all blocks that open slots may come to hold, so that decoding rarely copies a
// pool; the caller limits the capacity of slots.
void KvCache::grow_pools() {
  constexpr int64_t kLeast = 8;  // more places each time
  const int64_t had = pools_.empty() ? 0 : pools_.front().size(2);
  const int64_t places = std::max(had + kLeast, bytes() / slot_bytes(kKeyBlock));
  pools_.resize(static_cast<size_t>(layers_));
  for (at::Tensor& pool : pools_) {
    // Zeros, since library calls multiply values that are not written yet by probabilities of 0.
    const at::Tensor grown = at::zeros({2, kv_heads_, places, kKeyBlock, head_dim_},
                                       at::TensorOptions(device_).dtype(type_));
    if (had > 0) grown.narrow(2, 0, had).copy_(pool);
    pool = grown;
  }
  for (int64_t place = places; place-- > had;) free_.push_back(place);
}

int64_t KvCache::slot_bytes(int64_t capacity, int64_t shared) const {
  // Only full blocks are shared; a fork has its own copy of the last one.
  return (blocks_of(capacity) - shared / kKeyBlock) * layers_ * 2 * kv_heads_ * kKeyBlock * width_ *
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

std::vector<CachedSequence> KvCache::sequences(const std::vector<int64_t>& cu_seqlens) const {
  std::vector<CachedSequence> all(used_.size());
  for (size_t s = 0; s < all.size(); ++s) {
    const SequenceSlot& slot = slots_[static_cast<size_t>(used_[s])];
    all[s].tokens = cu_seqlens[s + 1] - cu_seqlens[s];
    all[s].length = slot.length + all[s].tokens;
    for (const KvBlock& block : slot.blocks) all[s].blocks.push_back(*block);
  }
  return all;
}

// Writes k, v [T, J, K] to the places of the new tokens.
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
        .view({kv_heads_, -1, head_dim_})
        .index_copy_(1, written_, x.transpose(0, 1));
  };
  write(0, k);
  write(1, v);
}

// Makes the blocks that the new tokens need. Returns true if no slot in use had tokens before.
bool KvCache::make_blocks(const std::vector<int64_t>& cu_seqlens) {
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
  return fresh;
}

at::Tensor KvCache::attend(int64_t layer, const at::Tensor& q, const at::Tensor& k,
                           const at::Tensor& v, const AttentionLayout& layout, double scale) {
  const std::vector<int64_t>& cu_seqlens = layout.cu_seqlens;
  XRUN_CHECK(layout.parent.empty(), "the cache takes segments, not a tree of {} nodes",
             layout.parent.size());
  XRUN_CHECK(used_.size() + 1 == cu_seqlens.size(), "the pack has {} segments, {} slots are in use",
             cu_seqlens.size() - 1, used_.size());
  const bool fresh = make_blocks(cu_seqlens);
  // Keys are written before the attention, since a token sees itself and the tokens before it in
  // this pack. Fresh sequences are a plain pack, whose kernel need not read the keys back.
  if (device_.is_cpu()) {
    const CpuBlocks blocks{blocks_, layer, kv_heads_, head_dim_};
    const std::vector<CachedSequence> all = sequences(cu_seqlens);
    append_to_blocks(blocks, all, k.to(type_).contiguous(), v.to(type_).contiguous());
    if (fresh) return varlen_attention(q, k, v, layout, scale);
    return cached_attention_cpu(q.to(type_).contiguous(), blocks, all, scale, layout.window)
        .to(q.scalar_type());
  }
  write_pool(layer, k, v, cu_seqlens);
  if (fresh) return varlen_attention(q, k, v, layout, scale);
  if (!calls_) {
    calls_ =
        cached_calls(sequences(cu_seqlens), {q.size(1), kv_heads_, head_dim_, kKeyBlock}, device_);
  }
  const at::Tensor& pool = pools_[static_cast<size_t>(layer)];
  return cached_attention(q, pool.select(0, 0), pool.select(0, 1), *calls_, scale, layout.window);
}

void KvCache::advance(const std::vector<int64_t>& cu_seqlens) {
  for (size_t s = 0; s < used_.size(); ++s) {
    used_slot(s).length += cu_seqlens[s + 1] - cu_seqlens[s];
  }
}

}  // namespace xrun
