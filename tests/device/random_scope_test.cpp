// The generators of both devices after a scope.

#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "core/train/evaluate.h"
#include "tests/pretend/pretend_device.h"

namespace xrun::random_scope_test {
namespace {

TEST(RandomScopeOfDevices, RestoresTheStateThatASeedChanges) {
  at::Generator other = at::globalContext().defaultGenerator(pretend_device());
  at::manual_seed(3);
  const at::Tensor state = other.get_state();
  at::manual_seed(3);
  const at::Tensor next = at::randn({4});
  at::manual_seed(3);
  {
    const RandomScope scope;
    at::manual_seed(4);
    EXPECT_FALSE(at::equal(other.get_state(), state));
  }
  EXPECT_TRUE(at::equal(other.get_state(), state));
  EXPECT_TRUE(at::equal(at::randn({4}), next));
}

}  // namespace
}  // namespace xrun::random_scope_test
