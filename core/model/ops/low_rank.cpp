#include "core/model/ops/low_rank.h"

#include "core/base/philox.h"
#include "core/model/ops/dropout_mask.h"

namespace xrun {

at::Tensor low_rank(const at::Tensor& x, const at::Tensor& a, const at::Tensor& b, double scale,
                    GemmType gemm) {
  return linear(linear(x, a, {}, gemm).mul(scale), b, {}, gemm);
}

at::Tensor dropped(const at::Tensor& x, double rate, const DropoutKey& key, int64_t place) {
  const uint64_t forward = philox_u64(key.seed, kStreamDropout, key.step,
                                      key.micro << 32 | static_cast<uint64_t>(place));
  return x.mul(dropout_mask(x, forward, rate));
}

}  // namespace xrun
