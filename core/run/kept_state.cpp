#include "core/run/kept_state.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <utility>

#include "core/base/error.h"
#include "core/train/saveable.h"

namespace xrun {

namespace {

at::Tensor copy_of(const at::Tensor& source, at::Tensor old) {
  if (!old.defined() || old.sizes() != source.sizes() || old.dtype() != source.dtype()) {
    old = at::empty_like(source, source.options().device(at::kCPU));
  }
  return old.copy_(source);
}

}  // namespace

int64_t KeptState::bytes_of(const SavedObjects& objects) {
  int64_t bytes = 0;
  for (const auto& [name, object] : objects) {
    for (const NamedTensor& one : object->tensors()) {
      bytes += static_cast<int64_t>(one.tensor.nbytes());
    }
  }
  return bytes;
}

int64_t KeptState::bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, one] : kept_) {
    for (const auto& [tensor_name, tensor] : one.tensors) {
      bytes += static_cast<int64_t>(tensor.nbytes());
    }
  }
  return bytes;
}

void KeptState::keep(const SavedObjects& objects) {
  const at::NoGradGuard no_grad;
  std::map<std::string, One> before = std::exchange(kept_, {}), now;
  for (const auto& [name, object] : objects) {
    One& one = now[name];
    std::map<std::string, at::Tensor>& old = before[name].tensors;
    for (const NamedTensor& tensor : object->tensors()) {
      one.tensors[tensor.name] = copy_of(tensor.tensor, std::move(old[tensor.name]));
    }
    one.state = object->state();
  }
  kept_ = std::move(now);
}

void KeptState::restore(const SavedObjects& objects) const {
  for (const auto& [name, object] : objects) {
    XRUN_CHECK(kept_.contains(name), "{} was not kept", name);
  }
  for (const auto& [name, object] : objects) {
    const auto found = kept_.find(name);
    const auto tensor = [&, &name = name](const std::string& which) {
      const auto kept = found->second.tensors.find(which);
      XRUN_CHECK(kept != found->second.tensors.end(), "{} of {} was not kept", which, name);
      return kept->second;
    };
    object->restore(tensor, found->second.state);
  }
}

}  // namespace xrun
