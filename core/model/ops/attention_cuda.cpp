// The CUDA form of xrun::varlen_attention: flash attention in bf16 and fp16 for heads of a multiple
// of 8 up to 256, the memory-efficient kernels in fp32 without a window, and the composed form for
// the rest. The layouts of the library kernels' log-sum-exps are checked, since they are not a
// public interface of LibTorch.

#include <ATen/core/Tensor.h>
#include <ATen/ops/_efficient_attention_backward.h>
#include <ATen/ops/_efficient_attention_forward.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <limits>
#include <optional>
#include <tuple>

#include "core/model/ops/attention_op.h"

namespace xrun {

namespace {

using Forward = std::tuple<at::Tensor, at::Tensor>;
using Backward = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

constexpr int64_t kCausal = 1;  // custom_mask_type of the memory-efficient kernels: from top left

enum class AttentionKernel { kFlash, kEfficient, kProducts };

bool has_longer_than_one(at::IntArrayRef cu_seqlens) {
  for (size_t s = 0; s + 1 < cu_seqlens.size(); ++s) {
    if (cu_seqlens[s + 1] - cu_seqlens[s] > 1) return true;
  }
  return false;
}

AttentionKernel kernel_for(const at::Tensor& q, at::IntArrayRef cu_seqlens, int64_t window) {
  TORCH_CHECK(q.size(0) <= std::numeric_limits<int>::max(), "varlen_attention: q has ", q.size(0),
              " rows, wanted fewer than 2^31");
  // Flash attention reorders the log-sum-exp of grouped heads where no segment has two tokens.
  if (!has_longer_than_one(cu_seqlens)) return AttentionKernel::kProducts;
  const bool half = q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf;
  if (half && q.size(2) % 8 == 0 && q.size(2) <= 256) return AttentionKernel::kFlash;
  // In fp32 the memory-efficient kernels read four elements at a time.
  const bool vectors = q.scalar_type() == at::kFloat && q.size(2) % 4 == 0;
  return vectors && window == 0 ? AttentionKernel::kEfficient : AttentionKernel::kProducts;
}

std::optional<int64_t> keys_before(int64_t window) {
  return window > 0 ? std::optional<int64_t>(window - 1) : std::nullopt;
}

std::optional<int64_t> keys_behind(int64_t window) {
  return window > 0 ? std::optional<int64_t>(0) : std::nullopt;
}

Forward flash_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                      const PackBorders& pack, double scale, int64_t window) {
  auto [out, lse, rng_state, unused, debug] = at::_flash_attention_forward(
      q, k, v, pack.cu_seqlens, pack.cu_seqlens, pack.longest, pack.longest, /*dropout_p=*/0.0,
      /*is_causal=*/true, /*return_debug_mask=*/false, std::optional<double>(scale),
      keys_before(window), keys_behind(window));
  TORCH_CHECK(lse.dim() == 2 && lse.size(0) == q.size(1) && lse.size(1) == q.size(0),
              "varlen_attention: flash attention's log-sum-exp is ", lse.sizes(), ", wanted [",
              q.size(1), ", ", q.size(0),
              "]: this LibTorch is not the one that xrun was built for; use --device cpu");
  return {out, lse};
}

Backward flash_backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse,
                        const PackBorders& pack, double scale, int64_t window) {
  // Without dropout the state of the random numbers is not read.
  const at::Tensor rng_state = at::empty({2}, q.options().dtype(at::kUInt64));
  const at::Tensor unused = at::empty({}, q.options().dtype(at::kUInt64));
  return at::_flash_attention_backward(
      grad, q, k, v, out, lse, pack.cu_seqlens, pack.cu_seqlens, pack.longest, pack.longest,
      /*dropout_p=*/0.0, /*is_causal=*/true, rng_state, unused, std::optional<double>(scale),
      keys_before(window), keys_behind(window));
}

Forward efficient_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const PackBorders& pack, double scale) {
  const int64_t heads = q.size(1);
  auto [out, lse, seed, offset, longest_q, longest_k] = at::_efficient_attention_forward(
      q.unsqueeze(0), head_copies(k, heads).unsqueeze(0), head_copies(v, heads).unsqueeze(0),
      /*bias=*/{}, pack.cu_seqlens, pack.cu_seqlens, std::optional<int64_t>(pack.longest),
      std::optional<int64_t>(pack.longest), /*dropout_p=*/0.0, kCausal, /*compute_log_sumexp=*/true,
      std::optional<double>(scale));
  return {out.squeeze(0), unpadded_lse(lse, pack)};
}

Backward efficient_backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse,
                            const PackBorders& pack, double scale) {
  const int64_t heads = q.size(1), groups = k.size(1);
  const at::Tensor none = at::empty({}, q.options().dtype(at::kLong));
  auto [dq, dk, dv, dbias] = at::_efficient_attention_backward(
      grad.unsqueeze(0), q.unsqueeze(0), head_copies(k, heads).unsqueeze(0),
      head_copies(v, heads).unsqueeze(0), /*bias=*/{}, out.unsqueeze(0), pack.cu_seqlens,
      pack.cu_seqlens, pack.longest, pack.longest, padded_lse(lse, pack),
      /*dropout_p=*/0.0, /*philox_seed=*/none, /*philox_offset=*/none, kCausal,
      /*bias_requires_grad=*/false, std::optional<double>(scale));
  return {dq.squeeze(0), sum_of_copies(dk.squeeze(0), groups),
          sum_of_copies(dv.squeeze(0), groups)};
}

Forward attention_forward_cuda(const at::Tensor& q_any, const at::Tensor& k_any,
                               const at::Tensor& v_any, at::IntArrayRef cu_seqlens, double scale,
                               int64_t window, at::IntArrayRef parent) {
  check_attention(q_any, k_any, v_any, cu_seqlens, window, parent);
  const AttentionKernel kernel = kernel_for(q_any, cu_seqlens, window);
  if (kernel == AttentionKernel::kProducts || !parent.empty()) {
    return attention_forward_composed(q_any, k_any, v_any, cu_seqlens, scale, window, parent);
  }
  const PackBorders pack = pack_borders(cu_seqlens, q_any.device());
  const at::Tensor q = q_any.contiguous(), k = k_any.contiguous(), v = v_any.contiguous();
  if (kernel == AttentionKernel::kFlash) return flash_forward(q, k, v, pack, scale, window);
  return efficient_forward(q, k, v, pack, scale);
}

Backward attention_backward_cuda(const at::Tensor& grad_any, const at::Tensor& q_any,
                                 const at::Tensor& k_any, const at::Tensor& v_any,
                                 const at::Tensor& out, const at::Tensor& lse,
                                 at::IntArrayRef cu_seqlens, double scale, int64_t window,
                                 at::IntArrayRef parent) {
  check_attention(q_any, k_any, v_any, cu_seqlens, window, parent);
  check_attention_backward(grad_any, q_any, out, lse);
  const AttentionKernel kernel = kernel_for(q_any, cu_seqlens, window);
  if (kernel == AttentionKernel::kProducts || !parent.empty()) {
    return attention_backward_composed(grad_any, q_any, k_any, v_any, out, lse, cu_seqlens, scale,
                                       window, parent);
  }
  const PackBorders pack = pack_borders(cu_seqlens, q_any.device());
  const at::Tensor grad = grad_any.to(q_any.scalar_type()).contiguous();
  const at::Tensor q = q_any.contiguous(), k = k_any.contiguous(), v = v_any.contiguous();
  if (kernel == AttentionKernel::kFlash) {
    return flash_backward(grad, q, k, v, out.contiguous(), lse.contiguous(), pack, scale, window);
  }
  return efficient_backward(grad, q, k, v, out.contiguous(), lse, pack, scale);
}

}  // namespace

TORCH_LIBRARY_IMPL(xrun, CUDA, m) {
  m.impl("varlen_attention_forward", attention_forward_cuda);
  m.impl("varlen_attention_backward", attention_backward_cuda);
}

}  // namespace xrun
