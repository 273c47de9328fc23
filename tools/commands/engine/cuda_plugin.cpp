// The driver is asked by its own interface (cuInit, cuDeviceGetCount), since a question to LibTorch
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

[[noreturn]] void refuse(const std::string& why) {
  throw UsageError(fmt::format("--device cuda: {}; use --device cpu", why));
}

template <class Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

void check_driver() {
  void* const driver = dlopen(kDriver, RTLD_NOW);
  if (driver == nullptr) refuse("this machine has no CUDA driver (libcuda.so.1)");
  const auto init = symbol<int (*)(unsigned)>(driver, "cuInit");
  const auto count = symbol<int (*)(int*)>(driver, "cuDeviceGetCount");
  if (init == nullptr || count == nullptr) refuse("libcuda.so.1 is no CUDA driver");
  if (const int status = init(0); status != 0) {
    refuse(fmt::format("the CUDA driver does not start (error {}); see nvidia-smi", status));
  }
  int devices = 0;
  if (count(&devices) != 0 || devices == 0) {
    refuse("the CUDA driver sees no GPU (see nvidia-smi and CUDA_VISIBLE_DEVICES)");
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
                    "wheels nvidia-cufile, nvidia-cusparselt-cu13 and nvidia-nvshmem-cu13 "
                    "unpacked beside torch/",
                    dlerror()));
  }
}

}  // namespace xrun
