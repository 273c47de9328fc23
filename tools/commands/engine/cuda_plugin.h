#pragma once
// Asks the CUDA driver of this machine, and loads the library with the CUDA forms of our ops.

#include <cstdint>
#include <filesystem>
#include <string>

namespace xrun {

struct CudaDriver {
  bool present = false;  // libcuda.so.1 is here
  int version = 0;       // 13000 is CUDA 13.0; 0: unknown
  int gpus = 0;
  // Name, memory and capability of the first GPU, which a run uses.
  std::string name;
  int64_t memory_bytes = 0;
  int capability_major = 0, capability_minor = 0;
  // The reason that `--device cuda` cannot run; "" if driver and GPU allow it.
  std::string problem;
};

// Asks the driver itself, without LibTorch.
CudaDriver read_cuda_driver();

// Returns the path of libxrun_cuda.so beside the executable; it need not exist.
std::filesystem::path cuda_plugin_path();

// Loads libxrun_cuda.so from the executable's folder. LibTorch caches whether it has CUDA, so call
// this before anything else of LibTorch. Throws UsageError with the fix if there is no driver or
// GPU, or if the library was not built or cannot be loaded.
//   of_run  the device comes from the run that is resumed, not from --device
void load_cuda_plugin(bool of_run = false);

}  // namespace xrun
