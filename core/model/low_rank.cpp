#include "core/model/low_rank.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>

#include "core/base/philox.h"
#include "core/model/device.h"

namespace xrun {

namespace {

constexpr int64_t kWords = 4;  // that one call of philox gives
constexpr int64_t kGrain = 4096;

}  // namespace

at::Tensor low_rank(const at::Tensor& x, const at::Tensor& a, const at::Tensor& b, double scale,
                    GemmType gemm) {
  return linear(linear(x, a, {}, gemm).mul(scale), b, {}, gemm);
}

at::Tensor dropped(const at::Tensor& x, double rate, const DropoutKey& key, int64_t place) {
  const uint64_t forward = philox_u64(key.seed, kStreamDropout, key.step,
                                      key.micro << 32 | static_cast<uint64_t>(place));
  const auto limit = static_cast<uint64_t>(std::ldexp(rate, 32));  // of 2^32
  const auto kept = static_cast<float>(1.0 / (1.0 - rate));
  at::Tensor mask = at::empty(x.sizes(), at::kFloat);
  float* const out = mask.mutable_data_ptr<float>();
  const int64_t n = mask.numel(), groups = (n + kWords - 1) / kWords;
  at::parallel_for(0, groups, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      const auto words = philox(forward, 0, static_cast<uint64_t>(g));
      for (int64_t w = 0; w < std::min(kWords, n - g * kWords); ++w) {
        out[g * kWords + w] = words[static_cast<size_t>(w)] < limit ? 0.0f : kept;
      }
    }
  });
  return x.mul(on_device(mask.to(x.scalar_type()), x.device()));
}

}  // namespace xrun
