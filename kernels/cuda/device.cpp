// What tests ask of the device: whether the host waits for it.

#include <c10/cuda/CUDAFunctions.h>

// From here on each wait of the host for the GPU that LibTorch knows of is a c10 warning; false: no
// more.
extern "C" void xrun_cuda_warn_of_waits(bool on) {
  using c10::cuda::SyncDebugMode;
  c10::cuda::warning_state().set_sync_debug_mode(on ? SyncDebugMode::L_WARN
                                                    : SyncDebugMode::L_DISABLED);
}
