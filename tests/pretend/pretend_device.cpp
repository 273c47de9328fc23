// We implement memory and copies; views are LibTorch's, and every other operation runs through its
// CPU fallback, which copies operands to the host and results back. Those copies are not waits. A
// copy to the host that is not waited for is NaN until the next wait.

#include "tests/pretend/pretend_device.h"

#include <ATen/CPUGeneratorImpl.h>
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
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <fmt/ranges.h>
#include <torch/library.h>

#include <atomic>
#include <cmath>
#include <mutex>
#include <vector>

#include "tests/pretend/pretend_memory.h"

namespace xrun {

namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;
const c10::Device kDevice(kType, 0);

// Copies that the host has queued and not waited for.
struct QueuedCopy {
  at::Tensor value, to;  // of the host
};

std::atomic<int64_t> reads, writes;
std::mutex mutex;
std::string text;
std::vector<QueuedCopy> queued;
std::atomic<int64_t> waited;  // how often all that was queued came to its end
thread_local bool in_fallback = false;

void note(std::atomic<int64_t>& count, const std::string& what) {
  if (in_fallback) return;
  ++count;
  const std::lock_guard lock(mutex);
  text += what + "\n";
}

std::string describe(const char* what, const at::Tensor& x) {
  return fmt::format("{} {}[{}]", what, c10::toString(x.scalar_type()), fmt::join(x.sizes(), ","));
}

void finish_queued() {
  if (in_fallback) return;
  const std::lock_guard lock(mutex);
  for (const QueuedCopy& one : queued) one.to.copy_(one.value);
  queued.clear();
  ++waited;
}

void read_after_wait(const std::string& what) {
  note(reads, what);
  finish_queued();
}

int64_t& waited_before(void* event) { return *static_cast<int64_t*>(event); }

struct Guard : c10::impl::NoOpDeviceGuardImpl<kType> {
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  c10::Stream getStream(c10::Device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, kDevice);
  }
  c10::Stream exchangeStream(c10::Stream) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, kDevice);
  }
  // An event counts the waits before it, and is complete after the next wait.
  void record(void** event, const c10::Stream&, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    if (*event == nullptr) *event = new int64_t;
    waited_before(*event) = waited.load();
  }
  bool queryEvent(void* event) const override { return waited.load() > waited_before(event); }
  void synchronizeEvent(void* event) const override {
    if (!queryEvent(event)) read_after_wait("event");
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<int64_t*>(event);
  }
};

struct Hooks : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_memory(); }
  bool isPinnedPtr(const void* data) const override { return is_pinned_address(data); }
  // Seeded like a GPU's; the fallback draws from the host's.
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    static const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>();
    return generator;
  }
};

// The same memory as a host tensor.
at::Tensor host_view(const at::Tensor& x) {
  return at::from_blob(x.mutable_data_ptr(), x.sizes(), x.strides(), x.options().device(c10::kCPU));
}

// Returns true if the host need not wait for a copy: as on a GPU, only if the host side is pinned.
bool is_queued(const at::Tensor& host, bool non_blocking) {
  return non_blocking && is_pinned_tensor(host);
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (from.is_cpu() && !is_queued(from, non_blocking)) note(writes, describe("write", from));
  if (to.is_cpu() && is_queued(to, non_blocking)) {
    const at::Tensor value = host_view(from).clone();
    if (to.is_floating_point()) to.fill_(std::nan(""));
    const std::lock_guard lock(mutex);
    queued.push_back({value, to});
    return to;
  }
  if (to.is_cpu()) read_after_wait(describe("read", from));
  const auto on_host = [](const at::Tensor& x) { return x.is_cpu() ? x : host_view(x); };
  on_host(to).copy_(on_host(from));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (to.sizes() != from.sizes()) to.resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Scalar read_scalar(const at::Tensor& x) {
  read_after_wait(describe("item", x));
  return host_view(x).item();
}

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> type,
                 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(sizes, &pretend_memory(),
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   type.value_or(at::kFloat), format);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides,
                         std::optional<at::ScalarType> type, std::optional<at::Layout>,
                         std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(sizes, strides, &pretend_memory(),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           type.value_or(at::kFloat));
}

const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef sizes,
                         std::optional<at::MemoryFormat>) {
  c10::TensorImpl* const impl = self.unsafeGetTensorImpl();
  const size_t bytes = static_cast<size_t>(c10::multiply_integers(sizes)) * self.itemsize();
  if (bytes > impl->unsafe_storage().nbytes()) {
    impl->unsafe_storage().set_data_ptr_noswap(pretend_memory().allocate(bytes));
    impl->unsafe_storage().set_nbytes(bytes);
  }
  impl->set_sizes_contiguous(sizes);
  return self;
}

// Operands of one device, or numbers, as on a GPU.
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
    c10::SetAllocator(kType, &pretend_memory());
    return true;
  }();
  static_cast<void>(registered);
  return kDevice;
}

DeviceWaits device_waits() { return {reads.load(), writes.load()}; }

std::string describe_waits() {
  const std::lock_guard lock(mutex);
  return std::exchange(text, std::string());
}

}  // namespace xrun
