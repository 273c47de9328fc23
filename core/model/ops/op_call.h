#pragma once
// Calls of our own ops through the dispatcher, so that a device's plug-in can answer them.

#include <ATen/core/dispatch/Dispatcher.h>

namespace xrun {

// Finds an op once; `static const auto op = find_op<decltype(f)>("xrun::name")`, where f is any
// function of the op's C++ signature.
template <class Signature>
auto find_op(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").template typed<Signature>();
}

}  // namespace xrun
