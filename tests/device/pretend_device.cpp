// Memory and copies are our own, views those of LibTorch; every other operation runs through its
// CPU fallback, which copies operands to the host and results back. Those copies are not waits.

#include "tests/device/pretend_device.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <fmt/ranges.h>
#include <torch/library.h>

#include <atomic>
#include <mutex>

namespace xrun {

namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;
const c10::Device kDevice(kType, 0);

std::atomic<int64_t> reads, writes;
std::mutex text_mutex;
std::string text;
thread_local bool in_fallback = false;

void note(std::atomic<int64_t>& count, const char* what, const at::Tensor& x) {
  if (in_fallback) return;
  ++count;
  const std::lock_guard lock(text_mutex);
  text +=
      fmt::format("{} {}[{}]\n", what, c10::toString(x.scalar_type()), fmt::join(x.sizes(), ","));
}

struct Memory : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr data = c10::GetCPUAllocator()->allocate(bytes);
    data.unsafe_set_device(kDevice);
    return data;
  }
  c10::DeleterFnPtr raw_deleter() const override { return c10::GetCPUAllocator()->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

Memory memory;

struct Guard : c10::impl::NoOpDeviceGuardImpl<kType> {
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  c10::Stream getStream(c10::Device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, kDevice);
  }
  c10::Stream exchangeStream(c10::Stream) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, kDevice);
  }
};

struct Hooks : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  // No generator of its own is needed, and manual_seed asks every device for one.
  c10::DeviceIndex deviceCount() const override { return 0; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
};

// The same memory as a tensor of the host.
at::Tensor host_view(const at::Tensor& x) {
  return at::from_blob(x.mutable_data_ptr(), x.sizes(), x.strides(), x.options().device(c10::kCPU));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (to.is_cpu()) note(reads, "read", from);
  if (from.is_cpu() && !non_blocking) note(writes, "write", from);
  const auto on_host = [](const at::Tensor& x) { return x.is_cpu() ? x : host_view(x); };
  on_host(to).copy_(on_host(from));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (to.sizes() != from.sizes()) to.resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Scalar read_scalar(const at::Tensor& x) {
  note(reads, "item", x);
  return host_view(x).item();
}

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> type,
                 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(sizes, &memory,
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   type.value_or(at::kFloat), format);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides,
                         std::optional<at::ScalarType> type, std::optional<at::Layout>,
                         std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(sizes, strides, &memory,
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           type.value_or(at::kFloat));
}

const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef sizes,
                         std::optional<at::MemoryFormat>) {
  c10::TensorImpl* const impl = self.unsafeGetTensorImpl();
  const size_t bytes = static_cast<size_t>(c10::multiply_integers(sizes)) * self.itemsize();
  if (bytes > impl->unsafe_storage().nbytes()) {
    impl->unsafe_storage().set_data_ptr_noswap(memory.allocate(bytes));
    impl->unsafe_storage().set_nbytes(bytes);
  }
  impl->set_sizes_contiguous(sizes);
  return self;
}

// Operands of one device, or numbers: what a GPU takes.
void check_devices(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const size_t count = op.schema().arguments().size();
  bool here = false, host = false;
  const auto look = [&](const at::Tensor& x) {
    if (!x.defined()) return;
    here = here || x.device().type() == kType;
    host = host || (x.is_cpu() && x.dim() > 0);
  };
  for (size_t i = stack.size() - count; i < stack.size(); ++i) {
    if (stack[i].isTensor()) look(stack[i].toTensor());
    if (stack[i].isTensorList()) {
      for (const at::Tensor& x : stack[i].toTensorVector()) look(x);
    }
  }
  TORCH_CHECK(!(here && host), op.schema().name(), ": expected all tensors to be on one device");
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  check_devices(op, *stack);
  const bool before = in_fallback;
  in_fallback = true;
  try {
    at::native::cpu_fallback(op, stack);
  } catch (...) {
    in_fallback = before;
    throw;
  }
  in_fallback = before;
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", read_scalar);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("resize_", resize);
}

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

}  // namespace

c10::Device pretend_device() {
  static const bool registered = [] {
    c10::register_privateuse1_backend("pretend");
    at::RegisterPrivateUse1HooksInterface(new Hooks);
    return true;
  }();
  static_cast<void>(registered);
  return kDevice;
}

DeviceWaits device_waits() { return {reads.load(), writes.load()}; }

std::string describe_waits() {
  const std::lock_guard lock(text_mutex);
  return std::exchange(text, std::string());
}

}  // namespace xrun
