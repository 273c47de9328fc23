// Dropout masks of a GPU have the bits of the CPU's.

#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "core/model/ops/dropout.h"
#include "tests/gpu/plugin.h"

namespace xrun::dropout_cuda_test {
namespace {

TEST(DropoutCuda, MasksMatchTheCpu) {
  if (cuda_plugin() == nullptr) GTEST_SKIP() << "no CUDA driver";
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const auto& sizes : {std::vector<int64_t>{0, 8}, {3, 7}, {1025, 333}}) {
      const at::Tensor like = at::zeros(sizes, type);
      const at::Tensor wanted = dropout_mask(like, 0x123456789abcdef0, 0.3);
      EXPECT_TRUE(at::equal(dropout_mask(like.cuda(), 0x123456789abcdef0, 0.3).cpu(), wanted));
    }
  }
}

}  // namespace
}  // namespace xrun::dropout_cuda_test
