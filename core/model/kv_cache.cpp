#include "core/model/kv_cache.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "core/base/error.h"
#include "core/model/attention.h"
#include "kernels/cpu/kernels.h"

namespace xrun {

namespace {

template <class T>
T* data(const at::Tensor& x) {
  return static_cast<T*>(x.mutable_data_ptr());
}

}  // namespace

KvCache::KvCache(const ModelConfig& config, at::ScalarType compute, int64_t slots, int64_t capacity)
    : capacity_(capacity), lengths_(static_cast<size_t>(slots), 0) {
  // fp16 has no kernel: its keys and values are kept in fp32
  const at::ScalarType type = compute == at::kBFloat16 ? at::kBFloat16 : at::kFloat;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    keys_.push_back(at::empty({slots, config.kv_heads, capacity, config.head_dim}, type));
    values_.push_back(at::empty({slots, config.kv_heads, capacity, config.head_dim}, type));
  }
}

void KvCache::use_slots(std::vector<int64_t> slots) {
  for (const int64_t slot : slots) {
    XRUN_CHECK(slot >= 0 && slot < static_cast<int64_t>(lengths_.size()),
               "the cache has {} slots, slot {} was asked for", lengths_.size(), slot);
  }
  slots_ = std::move(slots);
}

at::Tensor KvCache::attend(int64_t layer, const at::Tensor& q, const at::Tensor& k,
                           const at::Tensor& v, const std::vector<int64_t>& cu_seqlens,
                           double scale, int64_t window) {
  XRUN_CHECK(slots_.size() + 1 == cu_seqlens.size(),
             "the pack has {} segments, {} slots are in use", cu_seqlens.size() - 1, slots_.size());
  bool single = true, fresh = true;
  for (size_t s = 0; s < slots_.size(); ++s) {
    const int64_t n = cu_seqlens[s + 1] - cu_seqlens[s];
    single &= n == 1;
    fresh &= length(slots_[s]) == 0;
    XRUN_CHECK(length(slots_[s]) + n <= capacity_,
               "a sequence of {} tokens is beyond the cache's {}", length(slots_[s]) + n,
               capacity_);
  }
  XRUN_CHECK(single || fresh, "the cache takes whole prompts or single tokens, not both at once");
  if (!single) return prefill(layer, q, k, v, cu_seqlens, scale, window);
  const at::ScalarType type = keys_[0].scalar_type();
  return decode(layer, q.to(type).contiguous(), k.to(type).contiguous(), v.to(type).contiguous(),
                scale, window)
      .to(q.scalar_type());
}

at::Tensor KvCache::prefill(int64_t layer, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const std::vector<int64_t>& cu_seqlens,
                            double scale, int64_t window) {
  for (size_t s = 0; s < slots_.size(); ++s) {
    const int64_t begin = cu_seqlens[s], n = cu_seqlens[s + 1] - begin;
    const auto place = [&](const at::Tensor& cache) {
      return cache.select(0, slots_[s]).narrow(1, 0, n).permute({1, 0, 2});
    };
    place(keys_[static_cast<size_t>(layer)]).copy_(k.narrow(0, begin, n));
    place(values_[static_cast<size_t>(layer)]).copy_(v.narrow(0, begin, n));
  }
  return varlen_attention(q, k, v, cu_seqlens, scale, window);
}

at::Tensor KvCache::decode(int64_t layer, const at::Tensor& q, const at::Tensor& k,
                           const at::Tensor& v, double scale, int64_t window) {
  const at::Tensor& keys = keys_[static_cast<size_t>(layer)];
  const at::Tensor& values = values_[static_cast<size_t>(layer)];
  const int64_t heads = q.size(1), groups = k.size(1), width = k.size(2);
  at::Tensor y = at::empty_like(q);
  const auto run = [&](auto kernel, auto* unit) {
    using T = std::remove_pointer_t<decltype(unit)>;
    at::parallel_for(0, static_cast<int64_t>(slots_.size()), 1, [&](int64_t from, int64_t to) {
      std::vector<float> scratch;
      for (int64_t s = from; s < to; ++s) {
        const int64_t slot = slots_[static_cast<size_t>(s)], n = length(slot);
        T* const slot_keys = data<T>(keys) + slot * groups * capacity_ * width;
        T* const slot_values = data<T>(values) + slot * groups * capacity_ * width;
        for (int64_t g = 0; g < groups; ++g) {
          const int64_t to_row = (g * capacity_ + n) * width, from_row = (s * groups + g) * width;
          std::copy_n(data<T>(k) + from_row, width, slot_keys + to_row);
          std::copy_n(data<T>(v) + from_row, width, slot_values + to_row);
        }
        const int64_t first = window > 0 ? std::max<int64_t>(0, n + 1 - window) : 0;
        scratch.resize(static_cast<size_t>(n + 1 - first));
        kernel({data<T>(q) + s * heads * width, slot_keys + first * width,
                slot_values + first * width, data<T>(y) + s * heads * width, scratch.data(),
                n + 1 - first, capacity_, heads, groups, width, static_cast<float>(scale)});
      }
    });
  };
  const kernels::CpuKernels& table = kernels::cpu_kernels();
  if (q.scalar_type() == at::kFloat) {
    run(table.decode_attention_f32, static_cast<float*>(nullptr));
  } else {
    run(table.decode_attention_bf16, static_cast<kernels::Bf16*>(nullptr));
  }
  return y;
}

void KvCache::advance(const std::vector<int64_t>& cu_seqlens) {
  for (size_t s = 0; s < slots_.size(); ++s) {
    lengths_[static_cast<size_t>(slots_[s])] += cu_seqlens[s + 1] - cu_seqlens[s];
  }
}

}  // namespace xrun
