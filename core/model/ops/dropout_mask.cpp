// Element i is dropped if word i % 4 of Philox(key, i / 4) is below rate * 2^32.

#include "core/model/ops/dropout_mask.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/model/ops/op_call.h"
#include "core/model/ops/op_check.h"

namespace xrun {

namespace {

constexpr const char* kOp = "dropout_mask";
constexpr int64_t kWords = 4;  // that one call of philox gives
constexpr int64_t kGrain = 4096;
constexpr int64_t kAll = int64_t{1} << 32;

at::Tensor mask_cpu(const at::Tensor& like, int64_t key, int64_t limit, double kept) {
  check_floating(kOp, "like", like);
  XRUN_CHECK(limit >= 0 && limit <= kAll, "{}: limit is {}, wanted 0 to 2^32", kOp, limit);
  XRUN_CHECK(kept >= 1 && std::isfinite(kept), "{}: kept is {}, wanted a number of at least 1", kOp,
             kept);
  const at::Tensor mask = at::empty(like.sizes(), at::kFloat);
  float* const out = mask.mutable_data_ptr<float>();
  const auto below = static_cast<uint64_t>(limit);
  const auto value = static_cast<float>(kept);
  const int64_t n = mask.numel(), groups = (n + kWords - 1) / kWords;
  at::parallel_for(0, groups, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      const auto words = philox(static_cast<uint64_t>(key), 0, static_cast<uint64_t>(g));
      for (int64_t w = 0; w < std::min(kWords, n - g * kWords); ++w) {
        out[g * kWords + w] = words[static_cast<size_t>(w)] < below ? 0.0f : value;
      }
    }
  });
  return mask.to(like.scalar_type());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(xrun, m) {
  m.def("dropout_mask(Tensor like, int key, int limit, float kept) -> Tensor");
}

TORCH_LIBRARY_IMPL(xrun, CPU, m) { m.impl("dropout_mask", mask_cpu); }

at::Tensor dropout_mask(const at::Tensor& like, uint64_t key, double rate) {
  static const auto op = find_op<decltype(mask_cpu)>("xrun::dropout_mask");
  XRUN_CHECK(rate >= 0 && rate < 1, "{}: rate is {}, wanted 0 or more and below 1", kOp, rate);
  check_floating(kOp, "like", like, like.device());
  return op.call(like.detach(), static_cast<int64_t>(key),
                 static_cast<int64_t>(std::ldexp(rate, 32)), 1.0 / (1.0 - rate));
}

}  // namespace xrun
