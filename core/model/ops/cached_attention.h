#pragma once
// Attention of new tokens to the cached keys of their sequences by library calls, for devices
// whose cache is one tensor of blocks (core/model/kv_cache.h). The CPU has its own kernel
// (cached_attention_cpu.h). The op of one call is xrun::cached_attention.

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/model/ops/cached_calls.h"

namespace xrun {

// Returns softmax(scale q k^T) v over the tokens of a row's sequence up to itself, [T, H, K] in the
// type of q, computed in fp32.
//   q             [T, H, K]
//   keys, values  [J, P, block, K] in the type of q; finite everywhere, since padding is read too
//   window        a token sees the last `window` positions; 0: all
at::Tensor cached_attention(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values,
                            const CachedCalls& calls, double scale, int64_t window);

}  // namespace xrun
