// c10d's process group over NCCL, for tensors on GPUs. The engine finds this function by its name
// once the plug-in is loaded (process_group.cpp).

#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

// As the watchdog ends ranks that hang, NCCL's own limit only guards against a lost watchdog.
static constexpr std::chrono::minutes kNcclTimeout{60};

extern "C" __attribute__((visibility("default"))) void xrun_make_nccl_backend(
    const c10::intrusive_ptr<c10d::Store>& store, int64_t rank, int64_t size,
    c10::intrusive_ptr<c10d::Backend>& out) {
  // Otherwise c10d ends the process when a communicator is aborted. Ranks abort it after an error,
  // so that their streams end and they can save (process_group.cpp).
  ::setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", /*overwrite=*/1);
  const auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = kNcclTimeout;
  out = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, static_cast<int>(rank),
                                                    static_cast<int>(size), options);
}
