#include "core/train/random_scope.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

namespace xrun {

RandomScope::RandomScope() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  state_ = generator.get_state();
}

RandomScope::~RandomScope() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state_);
}

}  // namespace xrun
