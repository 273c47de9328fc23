#pragma once
// The CUDA driver and GPU of this machine, through the driver's own interface (cuInit): LibTorch
// asked before the plug-in is loaded would answer no for the rest of the process.

#include <cstdint>
#include <string>

namespace xrun {

struct CudaDriver {
  bool present = false;  // libcuda.so.1 is here
  int version = 0;       // 13000 is CUDA 13.0; 0: unknown
  int gpus = 0;
  // Of the first GPU, which a run uses.
  std::string name;
  int64_t memory_bytes = 0;
  int capability_major = 0, capability_minor = 0;
  // Why `--device cuda` cannot run; "" if driver and GPU allow it.
  std::string problem;
};

CudaDriver read_cuda_driver();

}  // namespace xrun
