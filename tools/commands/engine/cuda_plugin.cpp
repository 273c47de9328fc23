// The driver is asked by its own interface (cuInit and its like), since a question to LibTorch
// before the plug-in is there would be answered no for good.

#include "tools/commands/engine/cuda_plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/base/error.h"

namespace xrun {

namespace {

constexpr const char* kDriver = "libcuda.so.1";
constexpr const char* kPlugin = "libxrun_cuda.so";
constexpr const char* kNoGpu =
    "the CUDA driver sees no GPU (see nvidia-smi and CUDA_VISIBLE_DEVICES)";
constexpr int kNoDevice = 100;             // CUDA_ERROR_NO_DEVICE
constexpr int kCapabilityMajor = 75;       // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kOldestDriver = 13000;       // what LibTorch's wheel was built for: CUDA 13.0
constexpr int kOldestCapabilityMajor = 8;  // Ampere: bf16 products and flash attention

[[noreturn]] void refuse(const std::string& why) {
  throw UsageError(fmt::format("--device cuda: {}; use --device cpu", why));
}

template <class Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

// The first GPU that the driver shows is the one that a run takes.
void check_driver() {
  void* const driver = dlopen(kDriver, RTLD_NOW);
  if (driver == nullptr) refuse("this machine has no CUDA driver (libcuda.so.1)");
  const auto init = symbol<int (*)(unsigned)>(driver, "cuInit");
  const auto version = symbol<int (*)(int*)>(driver, "cuDriverGetVersion");
  const auto count = symbol<int (*)(int*)>(driver, "cuDeviceGetCount");
  const auto attribute = symbol<int (*)(int*, int, int)>(driver, "cuDeviceGetAttribute");
  if (init == nullptr || version == nullptr || count == nullptr || attribute == nullptr) {
    refuse("libcuda.so.1 is no CUDA driver");
  }
  const int status = init(0);
  if (status == kNoDevice) refuse(kNoGpu);
  if (status != 0) {
    refuse(fmt::format("the CUDA driver does not start (error {}); see nvidia-smi", status));
  }
  int devices = 0, has = 0, major = 0;
  if (count(&devices) != 0 || devices == 0) refuse(kNoGpu);
  if (version(&has) != 0 || has < kOldestDriver) {
    refuse(fmt::format("the driver is for CUDA {}.{}, wanted 13.0 or newer (driver 580)",
                       has / 1000, has % 1000 / 10));
  }
  if (attribute(&major, kCapabilityMajor, 0) != 0 || major < kOldestCapabilityMajor) {
    refuse(fmt::format("the GPU has compute capability {}.x, wanted 8.0 or newer (Ampere)", major));
  }
}

}  // namespace

void load_cuda_plugin() {
  check_driver();
  // What cuBLAS needs to give the same bits twice; LibTorch refuses its products otherwise.
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  const std::filesystem::path path =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / kPlugin;
  if (!std::filesystem::exists(path)) {
    refuse(fmt::format("{} was not built; install the CUDA 13.0 toolkit (nvcc) and build again",
                       path.string()));
  }
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    refuse(
        fmt::format("the CUDA plug-in cannot be loaded ({}); LibTorch's CUDA part needs the "
                    "wheels of tools/setup/cuda-wheels.txt unpacked beside torch/, where ./xrun "
                    "puts them once nvcc of CUDA 13 and a driver are there",
                    dlerror()));
  }
}

}  // namespace xrun
