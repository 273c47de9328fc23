// c10d's process group over NCCL, for tensors on GPUs. The engine finds this function by its name
// once the plug-in is loaded (process_group.cpp).

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

// As the watchdog ends ranks that hang, NCCL's own limit only guards against a lost watchdog.
static constexpr std::chrono::minutes kNcclTimeout{60};

extern "C" __attribute__((visibility("default"))) void xrun_make_nccl_backend(
    const c10::intrusive_ptr<c10d::Store>& store, int64_t rank, int64_t size,
    c10::intrusive_ptr<c10d::Backend>& out) {
  const auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = kNcclTimeout;
  out = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, static_cast<int>(rank),
                                                    static_cast<int>(size), options);
}
