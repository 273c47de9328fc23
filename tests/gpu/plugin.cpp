// The plug-in must load before anything asks torch for CUDA, so these tests are a separate
// executable.

#include "tests/gpu/plugin.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/tree.h"

namespace xrun {

namespace {

bool has_gpu() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return false;
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  int devices = 0;
  return init != nullptr && count != nullptr && init(0) == 0 && count(&devices) == 0 && devices > 0;
}

}  // namespace

void* cuda_plugin() {
  static void* const plugin = [] {
    if (!has_gpu()) return static_cast<void*>(nullptr);
    setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
    void* const library = dlopen(binary_path("libxrun_cuda.so").c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) ADD_FAILURE() << "there is a GPU, but " << dlerror();
    return library;
  }();
  return plugin;
}

}  // namespace xrun
