// A switch for tests that a step never makes the host wait for the device.

#include <c10/cuda/CUDAFunctions.h>

// Turns every wait of the host for the GPU that LibTorch detects into a c10 warning; false stops
// that.
extern "C" void xrun_cuda_warn_of_waits(bool on) {
  using c10::cuda::SyncDebugMode;
  c10::cuda::warning_state().set_sync_debug_mode(on ? SyncDebugMode::L_WARN
                                                    : SyncDebugMode::L_DISABLED);
}
