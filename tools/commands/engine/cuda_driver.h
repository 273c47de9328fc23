#pragma once
// What the CUDA driver says of this machine, asked by its own interface (cuInit and its like): a
// question to LibTorch before the plug-in is there would be answered no for good.

#include <cstdint>
#include <string>

namespace xrun {

struct CudaDriver {
  bool present = false;  // libcuda.so.1 is here
  int version = 0;       // 13000 is CUDA 13.0; 0: unknown
  int gpus = 0;
  // Of the first GPU, the one that a run takes.
  std::string name;
  int64_t memory_bytes = 0;
  int capability_major = 0, capability_minor = 0;
  // Why `--device cuda` cannot run, "" if nothing of driver and GPU is against it.
  std::string problem;
};

CudaDriver read_cuda_driver();

}  // namespace xrun
