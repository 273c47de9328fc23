#pragma once
// Keys and values of the sequences being decoded, one slot each, in blocks of 64 tokens that forked
// slots share. They are on the model's device. Attention to them is a kernel of ours on the CPU
// (ops/cached_attention_cpu.h) and library calls elsewhere (ops/cached_attention.h).

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/model/ops/attention_layout.h"
#include "core/model/ops/cached_calls.h"
#include "core/model/weights/hf_config.h"

namespace xrun {

// Not thread-safe.
class KvCache {
 public:
  // open() adds slots as they are needed.
  KvCache(const ModelConfig& config, at::ScalarType compute, int64_t slots = 0,
          c10::Device device = c10::kCPU);
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  // Makes a slot empty, for up to `capacity` tokens. The first `shared` of them will be those of a
  // slot that it is forked from.
  void open(int64_t slot, int64_t capacity, int64_t shared = 0);
  // Frees a slot.
  void close(int64_t slot);
  // Changes the number of tokens that a slot will hold. Throws Error if it holds more already.
  void reserve(int64_t slot, int64_t capacity);
  // Drops all but the first `length` tokens of a slot, which stays open.
  void truncate(int64_t slot, int64_t length);
  // Gives an open slot the tokens of another: full blocks by reference, the last one as a copy.
  void fork(int64_t from, int64_t to);
  int64_t length(int64_t slot) const { return slots_[static_cast<size_t>(slot)].length; }
  // Returns the memory of a slot of `capacity` tokens that shares `shared` of them.
  int64_t slot_bytes(int64_t capacity, int64_t shared = 0) const;
  // Returns the memory of all blocks, and of those that open slots have still to allocate.
  int64_t bytes() const;

  // Sets the slot of each segment of the next forward.
  void use_slots(std::vector<int64_t> slots);
  // Appends one layer's keys and values and returns the attention of the new tokens to all tokens
  // of their slots, [T, H, K]. The layout's nodes are segments, one per slot in use, of any length.
  at::Tensor attend(int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const AttentionLayout& layout, double scale);
  // Adds the appended tokens to the slots' lengths. Called after the last layer.
  void advance(const std::vector<int64_t>& cu_seqlens);

 private:
  // The index of a block, called its place, in blocks_ or in the pools.
  using KvBlock = std::shared_ptr<const int64_t>;

  struct SequenceSlot {
    std::vector<KvBlock> blocks;
    int64_t length = 0, capacity = 0, shared = 0;
  };

  KvBlock new_block();
  KvBlock copy_of(const KvBlock& block);
  void grow();
  void grow_pools();
  bool make_blocks(const std::vector<int64_t>& cu_seqlens);
  std::vector<CachedSequence> sequences(const std::vector<int64_t>& cu_seqlens) const;
  void write_pool(int64_t layer, const at::Tensor& k, const at::Tensor& v,
                  const std::vector<int64_t>& cu_seqlens);
  SequenceSlot& used_slot(size_t segment) { return slots_[static_cast<size_t>(used_[segment])]; }

  c10::Device device_;
  at::ScalarType type_;
  int64_t layers_, kv_heads_, head_dim_, width_;  // J key heads of K, padded to width_ on the CPU
  int64_t live_ = 0;                              // blocks
  std::vector<int64_t> free_;                     // places without a block
  // On the CPU: [layers, 2, J, 64 width], undefined at a free place.
  std::vector<at::Tensor> blocks_;
  // Elsewhere, by layer: [2, J, P, 64, K] for P places; one tensor, since library calls gather
  // blocks of a tensor. Pools grow when no place is free.
  std::vector<at::Tensor> pools_;
  // State of the forward that use_slots() began, made by its first layer.
  at::Tensor written_;  // [T] int64, the index of each new token in the P 64 tokens of a pool
  std::optional<CachedCalls> calls_;
  std::vector<SequenceSlot> slots_;
  std::vector<int64_t> used_;
};

}  // namespace xrun
