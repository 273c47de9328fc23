// Element i is dropped if word i % 4 of Philox(key, i / 4) is below rate * 2^32. A mask depends
// only on its key, so recomputed blocks and other devices make it again without saved state.

#include "core/model/ops/dropout.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/model/ops/op.h"

namespace xrun {

namespace {

constexpr const char* kMaskOp = "dropout_mask";
constexpr int64_t kWords = 4;  // of one Philox counter
constexpr int64_t kMaskGrain = 4096;
constexpr int64_t kMaxLimit = int64_t{1} << 32;

// Returns 0 or `scale` for each element.
at::Tensor dropout_mask_cpu(const at::Tensor& like, int64_t key, int64_t limit, double scale) {
  check_floating(kMaskOp, "like", like);
  XRUN_CHECK(limit >= 0 && limit <= kMaxLimit, "{}: limit is {}, wanted 0 to 2^32", kMaskOp, limit);
  XRUN_CHECK(scale >= 1 && std::isfinite(scale), "{}: scale is {}, wanted a number of at least 1",
             kMaskOp, scale);
  const at::Tensor mask = at::empty(like.sizes(), at::kFloat);
  float* const out = mask.mutable_data_ptr<float>();
  const auto below = static_cast<uint64_t>(limit);
  const auto value = static_cast<float>(scale);
  const int64_t n = mask.numel(), groups = (n + kWords - 1) / kWords;
  at::parallel_for(0, groups, kMaskGrain, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      // One counter gives four words, one per element; a group never depends on the split over
      // threads.
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
  m.def("dropout_mask(Tensor like, int key, int limit, float scale) -> Tensor");
}

TORCH_LIBRARY_IMPL(xrun, CPU, m) { m.impl("dropout_mask", dropout_mask_cpu); }

// limit = rate 2^32, so that rates are compared exactly in integers.
at::Tensor dropout_mask(const at::Tensor& like, uint64_t key, double rate) {
  static const auto op = find_op<decltype(dropout_mask_cpu)>("xrun::dropout_mask");
  XRUN_CHECK(rate >= 0 && rate < 1, "{}: rate is {}, wanted 0 or more and below 1", kMaskOp, rate);
  check_floating(kMaskOp, "like", like, like.device());
  return op.call(like.detach(), static_cast<int64_t>(key),
                 static_cast<int64_t>(std::ldexp(rate, 32)), 1.0 / (1.0 - rate));
}

// Each map of a micro-batch has its own key, and each step has other keys.
at::Tensor dropped(const at::Tensor& x, double rate, const DropoutKey& key, int64_t map) {
  // micro and map share one word: maps are below 2^32.
  const uint64_t mask_key =
      philox_u64(key.seed, kStreamDropout, key.step, key.micro << 32 | static_cast<uint64_t>(map));
  return x.mul(dropout_mask(x, mask_key, rate));
}

void dropped_saves(SavedTensors& saved, const std::string& x, double width) {
  saved.add(x + ".mask", width);
}

}  // namespace xrun
