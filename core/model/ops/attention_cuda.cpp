// The CUDA form of xrun::varlen_attention: flash attention in bf16 and fp16 for head sizes that are
// multiples of 8 up to 256, the memory-efficient kernels in fp32 without a window, and the composed
// form for the rest. Trees without a window take a call per level, and the results are merged
// (attention_slices.h). The layout of the library kernels' log-sum-exps is checked, since it is not
// a public interface of LibTorch.

#include <ATen/core/Tensor.h>
#include <ATen/ops/_efficient_attention_backward.h>
#include <ATen/ops/_efficient_attention_forward.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "core/model/ops/attention_op.h"
#include "core/model/ops/attention_slices.h"

namespace xrun {

namespace {

using OutputAndLse = std::tuple<at::Tensor, at::Tensor>;
using Backward = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// custom_mask_type of the memory-efficient kernels; the causal mask is aligned to the top left.
constexpr int64_t kUnmasked = 0, kCausal = 1;

enum class AttentionKernel { kFlash, kEfficient, kProducts };

// Returns true if a segment has more than one token.
bool has_longer_than_one(at::IntArrayRef cu_seqlens) {
  for (size_t s = 0; s + 1 < cu_seqlens.size(); ++s) {
    if (cu_seqlens[s + 1] - cu_seqlens[s] > 1) return true;
  }
  return false;
}

AttentionKernel kernel_for(const at::Tensor& q, at::IntArrayRef cu_seqlens, int64_t window) {
  // Flash attention reorders the log-sum-exp of grouped heads if no segment has two tokens.
  if (!has_longer_than_one(cu_seqlens)) return AttentionKernel::kProducts;
  const bool half = q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf;
  if (half && q.size(2) % 8 == 0 && q.size(2) <= 256) return AttentionKernel::kFlash;
  // In fp32 the memory-efficient kernels read four elements at a time.
  const bool vectors = q.scalar_type() == at::kFloat && q.size(2) % 4 == 0;
  return vectors && window == 0 ? AttentionKernel::kEfficient : AttentionKernel::kProducts;
}

// Returns the slices of a tree, or null if it must take the composed form: the windows of library
// calls count rows, not positions on a path.
std::shared_ptr<const std::vector<AttentionSlice>> slices_of(const at::Tensor& q,
                                                             at::IntArrayRef cu_seqlens,
                                                             at::IntArrayRef parent,
                                                             int64_t window) {
  if (window > 0 || q.size(0) == 0) return nullptr;
  auto slices = attention_slices(*layout_paths(cu_seqlens, parent), q.device());
  for (const AttentionSlice& slice : *slices) {
    if (slice.queries.longest < 2) return nullptr;  // as in kernel_for
  }
  return slices;
}

struct AttentionPlan {
  AttentionKernel kernel;
  // The calls of a tree, one per level; null: the whole pack is one call.
  std::shared_ptr<const std::vector<AttentionSlice>> slices;
};

// Returns the same plan for a forward and its backward. A tree without slices takes the composed
// form.
AttentionPlan plan_for(const at::Tensor& q, at::IntArrayRef cu_seqlens, at::IntArrayRef parent,
                       int64_t window) {
  AttentionPlan plan{kernel_for(q, cu_seqlens, window), nullptr};
  if (parent.empty()) return plan;
  plan.slices = slices_of(q, cu_seqlens, parent, window);
  if (!plan.slices) plan.kernel = AttentionKernel::kProducts;
  return plan;
}

// Returns the library's form of a window: the number of keys before the query.
std::optional<int64_t> keys_before(int64_t window) {
  return window > 0 ? std::optional<int64_t>(window - 1) : std::nullopt;
}

std::optional<int64_t> keys_behind(int64_t window) {
  return window > 0 ? std::optional<int64_t>(0) : std::nullopt;
}

// Checks the shape of lse, since a newer LibTorch may lay it out otherwise.
OutputAndLse flash_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const AttentionSlice& slice, double scale, int64_t window) {
  auto [out, lse, rng_state, unused, debug] = at::_flash_attention_forward(
      q, k, v, slice.queries.cu_seqlens, slice.keys.cu_seqlens, slice.queries.longest,
      slice.keys.longest, /*dropout_p=*/0.0, slice.causal, /*return_debug_mask=*/false,
      std::optional<double>(scale), keys_before(window), keys_behind(window));
  TORCH_CHECK(lse.dim() == 2 && lse.size(0) == q.size(1) && lse.size(1) == q.size(0),
              "varlen_attention: flash attention's log-sum-exp is ", lse.sizes(), ", wanted [",
              q.size(1), ", ", q.size(0),
              "]: this LibTorch is not the one that xrun was built for; use --device cpu");
  return {out, lse};
}

Backward flash_backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse,
                        const AttentionSlice& slice, double scale, int64_t window) {
  // Without dropout the generator's state is not read, but the call needs tensors of its shape.
  const at::Tensor rng_state = at::empty({2}, q.options().dtype(at::kUInt64));
  const at::Tensor unused = at::empty({}, q.options().dtype(at::kUInt64));
  return at::_flash_attention_backward(
      grad, q, k, v, out, lse, slice.queries.cu_seqlens, slice.keys.cu_seqlens,
      slice.queries.longest, slice.keys.longest, /*dropout_p=*/0.0, slice.causal, rng_state, unused,
      std::optional<double>(scale), keys_before(window), keys_behind(window));
}

OutputAndLse efficient_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const AttentionSlice& slice, double scale) {
  const int64_t heads = q.size(1);
  auto [out, lse, seed, offset, longest_q, longest_k] = at::_efficient_attention_forward(
      q.unsqueeze(0), head_copies(k, heads).unsqueeze(0), head_copies(v, heads).unsqueeze(0),
      /*bias=*/{}, slice.queries.cu_seqlens, slice.keys.cu_seqlens,
      std::optional<int64_t>(slice.queries.longest), std::optional<int64_t>(slice.keys.longest),
      /*dropout_p=*/0.0, slice.causal ? kCausal : kUnmasked, /*compute_log_sumexp=*/true,
      std::optional<double>(scale));
  return {out.squeeze(0), unpadded_lse(lse, slice.queries)};
}

Backward efficient_backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse,
                            const AttentionSlice& slice, double scale) {
  const int64_t heads = q.size(1), kv_heads = k.size(1);
  const at::Tensor none = at::empty({}, q.options().dtype(at::kLong));
  auto [dq, dk, dv, dbias] = at::_efficient_attention_backward(
      grad.unsqueeze(0), q.unsqueeze(0), head_copies(k, heads).unsqueeze(0),
      head_copies(v, heads).unsqueeze(0), /*bias=*/{}, out.unsqueeze(0), slice.queries.cu_seqlens,
      slice.keys.cu_seqlens, slice.queries.longest, slice.keys.longest,
      padded_lse(lse, slice.queries), /*dropout_p=*/0.0, /*philox_seed=*/none,
      /*philox_offset=*/none, slice.causal ? kCausal : kUnmasked, /*bias_requires_grad=*/false,
      std::optional<double>(scale));
  return {dq.squeeze(0), sum_of_copies(dk.squeeze(0), kv_heads),
          sum_of_copies(dv.squeeze(0), kv_heads)};
}

// The memory-efficient kernels never get a window, since kernel_for() excludes it.
OutputAndLse slice_forward(AttentionKernel kernel, const at::Tensor& q, const at::Tensor& k,
                           const at::Tensor& v, const AttentionSlice& slice, double scale,
                           int64_t window) {
  if (kernel == AttentionKernel::kFlash) return flash_forward(q, k, v, slice, scale, window);
  return efficient_forward(q, k, v, slice, scale);
}

Backward slice_backward(AttentionKernel kernel, const at::Tensor& grad, const at::Tensor& q,
                        const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
                        const at::Tensor& lse, const AttentionSlice& slice, double scale,
                        int64_t window) {
  if (kernel == AttentionKernel::kFlash) {
    return flash_backward(grad, q, k, v, out, lse, slice, scale, window);
  }
  return efficient_backward(grad, q, k, v, out, lse, slice, scale);
}

// Returns the whole pack as one causal call.
AttentionSlice whole_pack(at::IntArrayRef cu_seqlens, c10::Device device) {
  const PackBorders pack = pack_borders(cu_seqlens, device);
  return {.query_rows = {}, .key_rows = {}, .queries = pack, .keys = pack, .causal = true};
}

// A whole pack is one call; a tree is one call per level, whose results are merged.
OutputAndLse attention_forward_cuda(const at::Tensor& q_any, const at::Tensor& k_any,
                                    const at::Tensor& v_any, at::IntArrayRef cu_seqlens,
                                    double scale, int64_t window, at::IntArrayRef parent) {
  check_attention(q_any, k_any, v_any, cu_seqlens, window, parent);
  const AttentionPlan plan = plan_for(q_any, cu_seqlens, parent, window);
  if (plan.kernel == AttentionKernel::kProducts) {
    return attention_forward_composed(q_any, k_any, v_any, cu_seqlens, scale, window, parent);
  }
  const at::Tensor q = q_any.contiguous(), k = k_any.contiguous(), v = v_any.contiguous();
  const auto call = [&](const at::Tensor& q1, const at::Tensor& k1, const at::Tensor& v1,
                        const AttentionSlice& slice) {
    return slice_forward(plan.kernel, q1, k1, v1, slice, scale, window);
  };
  if (plan.slices) return merged_forward(q, k, v, *plan.slices, call);
  return call(q, k, v, whole_pack(cu_seqlens, q.device()));
}

Backward attention_backward_cuda(const at::Tensor& grad_any, const at::Tensor& q_any,
                                 const at::Tensor& k_any, const at::Tensor& v_any,
                                 const at::Tensor& out_any, const at::Tensor& lse_any,
                                 at::IntArrayRef cu_seqlens, double scale, int64_t window,
                                 at::IntArrayRef parent) {
  check_attention_backward(grad_any, q_any, k_any, v_any, out_any, lse_any, cu_seqlens, window,
                           parent);
  const AttentionPlan plan = plan_for(q_any, cu_seqlens, parent, window);
  if (plan.kernel == AttentionKernel::kProducts) {
    return attention_backward_composed(grad_any, q_any, k_any, v_any, out_any, lse_any, cu_seqlens,
                                       scale, window, parent);
  }
  const at::Tensor grad = grad_any.contiguous(), out = out_any.contiguous();
  const at::Tensor lse = lse_any.contiguous();
  const at::Tensor q = q_any.contiguous(), k = k_any.contiguous(), v = v_any.contiguous();
  const auto call = [&](const at::Tensor& g1, const at::Tensor& q1, const at::Tensor& k1,
                        const at::Tensor& v1, const at::Tensor& out1, const at::Tensor& lse1,
                        const AttentionSlice& slice) {
    return slice_backward(plan.kernel, g1, q1, k1, v1, out1, lse1, slice, scale, window);
  };
  if (plan.slices) return merged_backward(grad, q, k, v, out, lse, *plan.slices, call);
  return call(grad, q, k, v, out, lse, whole_pack(cu_seqlens, q.device()));
}

}  // namespace

TORCH_LIBRARY_IMPL(xrun, CUDA, m) {
  m.impl("varlen_attention_forward", attention_forward_cuda);
  m.impl("varlen_attention_backward", attention_backward_cuda);
}

}  // namespace xrun
