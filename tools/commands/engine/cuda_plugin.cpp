#include "tools/commands/engine/cuda_plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/base/error.h"
#include "tools/commands/engine/cuda_driver.h"

namespace xrun {

namespace {

constexpr const char* kPlugin = "libxrun_cuda.so";

[[noreturn]] void refuse(const std::string& why) {
  throw UsageError(fmt::format("--device cuda: {}; use --device cpu", why));
}

}  // namespace

std::filesystem::path cuda_plugin_path() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / kPlugin;
}

void load_cuda_plugin() {
  if (const CudaDriver driver = read_cuda_driver(); !driver.problem.empty()) {
    refuse(driver.problem);
  }
  // cuBLAS needs this for reproducible bits; LibTorch refuses its products otherwise.
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  const std::filesystem::path path = cuda_plugin_path();
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
