// A copy holds the tensors, ranges and state() of each object by name; restore() gives them back.

#include "core/run/state_copy.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <utility>

#include "core/base/error.h"
#include "core/train/models/saveable.h"

namespace xrun {

namespace {

at::Tensor copy_into(const at::Tensor& source, at::Tensor old) {
  if (!old.defined() || old.sizes() != source.sizes() || old.dtype() != source.dtype()) {
    // On the host, also for a GPU run: device memory is the scarce one.
    old = at::empty_like(source, source.options().device(at::kCPU));
  }
  return old.copy_(source);
}

// The ranges that this rank holds, and the tensors that it has whole.
std::vector<TensorRange> held_by(const Saveable& object) {
  std::vector<TensorRange> ranges = object.ranges();
  for (const NamedTensor& whole : object.tensors()) {
    ranges.push_back({whole.name, whole.tensor.sizes().vec(), 0, whole.tensor});
  }
  return ranges;
}

}  // namespace

int64_t StateCopy::bytes_of(const SavedObjects& objects) {
  int64_t bytes = 0;
  for (const auto& [name, object] : objects) {
    for (const TensorRange& range : held_by(*object)) {
      bytes += static_cast<int64_t>(range.held.nbytes());
    }
  }
  return bytes;
}

int64_t StateCopy::bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, one] : copies_) {
    for (const auto& [tensor_name, tensor] : one.tensors) {
      bytes += static_cast<int64_t>(tensor.nbytes());
    }
  }
  return bytes;
}

void StateCopy::keep(const SavedObjects& objects) {
  const at::NoGradGuard no_grad;
  // The buffers of the last copy are reused; allocating gigabytes per body would touch every page
  // again.
  std::map<std::string, ObjectCopy> before = std::exchange(copies_, {}), now;
  for (const auto& [name, object] : objects) {
    ObjectCopy& one = now[name];
    std::map<std::string, at::Tensor>& old = before[name].tensors;
    for (const TensorRange& range : held_by(*object)) {
      one.tensors[range.name] = copy_into(range.held, std::move(old[range.name]));
    }
    one.state = object->state();
  }
  copies_ = std::move(now);
}

void StateCopy::restore(const SavedObjects& objects) const {
  for (const auto& [name, object] : objects) {
    // All names before the first restore: half a restore is worse than none.
    XRUN_CHECK(copies_.contains(name), "cannot restore {}: it was not saved in the copy", name);
  }
  for (const auto& [name, object] : objects) {
    const auto found = copies_.find(name);
    const auto tensor = [&, &name = name](const std::string& which) {
      const auto copied = found->second.tensors.find(which);
      XRUN_CHECK(copied != found->second.tensors.end(),
                 "cannot restore {} of {}: it was not saved in the copy", which, name);
      return copied->second;
    };
    // The copy of a rank holds exactly the ranges that it asks for.
    const auto range = [&](const std::string& which, at::IntArrayRef, int64_t, int64_t) {
      return tensor(which).reshape({-1});
    };
    object->restore({tensor, range}, found->second.state);
  }
}

}  // namespace xrun
