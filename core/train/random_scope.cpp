#include "core/train/random_scope.h"

#include <ATen/Context.h>

#include <mutex>

namespace xrun {

namespace {

// A run takes the first device of its kind.
std::vector<at::Generator> generators() {
  std::vector<at::Generator> all = {at::globalContext().defaultGenerator(c10::kCPU)};
  const auto kind = at::getAccelerator();
  if (!kind) return all;
  all.push_back(at::globalContext().defaultGenerator(c10::Device(*kind, 0)));
  return all;
}

}  // namespace

RandomScope::RandomScope() {
  for (at::Generator& generator : generators()) {
    const std::lock_guard lock(generator.mutex());
    states_.emplace_back(generator, generator.get_state());
  }
}

RandomScope::~RandomScope() {
  for (auto& [generator, state] : states_) {
    const std::lock_guard lock(generator.mutex());
    generator.set_state(state);
  }
}

}  // namespace xrun
