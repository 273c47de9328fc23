#pragma once
// Keys and values of the sequences being decoded, one slot each.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/model/hf_config.h"

namespace xrun {

// Slots have a fixed capacity in tokens. Not thread-safe.
class KvCache {
 public:
  KvCache(const ModelConfig& config, at::ScalarType compute, int64_t slots, int64_t capacity);

  // The slot of each segment of the next forward.
  void use_slots(std::vector<int64_t> slots);
  int64_t length(int64_t slot) const { return lengths_[static_cast<size_t>(slot)]; }
  void clear(int64_t slot) { lengths_[static_cast<size_t>(slot)] = 0; }

  // Appends one layer's keys and values and attends to the segment's last `window`, [T, H, K];
  // 0: to all. Either
  // every segment is one token, or every slot in use is empty.
  at::Tensor attend(int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const std::vector<int64_t>& cu_seqlens, double scale, int64_t window = 0);
  // Makes the appended tokens count, after the last layer.
  void advance(const std::vector<int64_t>& cu_seqlens);

 private:
  at::Tensor prefill(int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const std::vector<int64_t>& cu_seqlens, double scale, int64_t window);
  at::Tensor decode(int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    double scale, int64_t window);

  int64_t capacity_;
  std::vector<at::Tensor> keys_, values_;  // a layer: [slots, G, capacity, K], fp32 or bf16
  std::vector<int64_t> lengths_, slots_;
};

}  // namespace xrun
