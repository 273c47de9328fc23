#pragma once
// Keys and values of the sequences being decoded, one slot each.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/model/ops/attention_layout.h"
#include "core/model/weights/hf_config.h"

namespace xrun {

// Not thread-safe.
class KvCache {
 public:
  KvCache(const ModelConfig& config, at::ScalarType compute, int64_t slots);

  // Allocates `capacity` tokens for an empty slot; frees the slot.
  void open(int64_t slot, int64_t capacity);
  void close(int64_t slot);
  // Drops the tokens of a slot, which stays open.
  void clear(int64_t slot) { lengths_[static_cast<size_t>(slot)] = 0; }
  // Copies all tokens of a slot into an open one with enough capacity.
  void fork(int64_t from, int64_t to);
  int64_t length(int64_t slot) const { return lengths_[static_cast<size_t>(slot)]; }
  int64_t slot_bytes(int64_t capacity) const;  // of one slot
  int64_t bytes() const;                       // of all open ones

  // Sets the slot of each segment of the next forward.
  void use_slots(std::vector<int64_t> slots);
  // Appends one layer's keys and values and returns the attention, [T, H, K]. The layout's nodes
  // are segments, one per slot in use; either each is one token, or all those slots are empty.
  at::Tensor attend(int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const AttentionLayout& layout, double scale);
  // Adds the appended tokens to the lengths, after the last layer.
  void advance(const std::vector<int64_t>& cu_seqlens);

 private:
  at::Tensor prefill(int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const AttentionLayout& layout, double scale);
  at::Tensor decode(int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    double scale, int64_t window);
  at::Tensor key_block(const at::Tensor& slot, int64_t block, int64_t count) const;
  int64_t capacity(int64_t slot) const;

  at::ScalarType type_;
  int64_t layers_, groups_, head_dim_, width_;  // G key heads of K, padded to `width`
  // [layers, 2, G, cache_tokens(capacity), width], keys in transposed blocks, then values; fp32 or
  // bf16
  std::vector<at::Tensor> slots_;
  std::vector<int64_t> lengths_, used_;
};

}  // namespace xrun
