// The driver is asked through its own interface (cuInit): LibTorch asked before the plug-in is
// loaded would answer no for the rest of the process.

#include "tools/commands/engine/cuda_plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/running_program.h"

namespace xrun {

namespace {

constexpr const char* kPlugin = "libxrun_cuda.so";
constexpr const char* kDriver = "libcuda.so.1";
constexpr const char* kNoGpu =
    "the CUDA driver finds no GPU (see nvidia-smi and CUDA_VISIBLE_DEVICES)";
constexpr int kNoDevice = 100;             // CUDA_ERROR_NO_DEVICE
constexpr int kCapabilityMajor = 75;       // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kCapabilityMinor = 76;       // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
constexpr int kOldestDriver = 13000;       // LibTorch's wheel is built for CUDA 13.0
constexpr int kOldestCapabilityMajor = 8;  // Ampere: bf16 products and flash attention

template <class Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

void read_first_gpu(void* driver, CudaDriver& out) {
  char name[256] = "";
  if (const auto get = symbol<int (*)(char*, int, int)>(driver, "cuDeviceGetName");
      get != nullptr && get(name, sizeof name, 0) == 0) {
    out.name = name;
  }
  // _v2 (CUDA 3.2) counts in size_t; the older function of the plain name has 32 bits.
  size_t bytes = 0;
  if (const auto get = symbol<int (*)(size_t*, int)>(driver, "cuDeviceTotalMem_v2");
      get != nullptr && get(&bytes, 0) == 0) {
    out.memory_bytes = static_cast<int64_t>(bytes);
  }
}

// Fills `out`. Returns the reason that a run is impossible, or "".
std::string read(void* driver, CudaDriver& out) {
  const auto init = symbol<int (*)(unsigned)>(driver, "cuInit");
  const auto version = symbol<int (*)(int*)>(driver, "cuDriverGetVersion");
  const auto count = symbol<int (*)(int*)>(driver, "cuDeviceGetCount");
  const auto attribute = symbol<int (*)(int*, int, int)>(driver, "cuDeviceGetAttribute");
  if (init == nullptr || version == nullptr || count == nullptr || attribute == nullptr) {
    return "libcuda.so.1 is not a CUDA driver";
  }
  const int status = init(0);
  if (status == kNoDevice) return kNoGpu;
  if (status != 0) {
    return fmt::format("the CUDA driver does not start (error {}); see nvidia-smi", status);
  }
  if (count(&out.gpus) != 0 || out.gpus == 0) return kNoGpu;
  read_first_gpu(driver, out);
  // A version is 1000 * major + 10 * minor.
  if (version(&out.version) != 0 || out.version < kOldestDriver) {
    return fmt::format("the driver is for CUDA {}.{}, wanted 13.0 or newer (driver 580)",
                       out.version / 1000, out.version % 1000 / 10);
  }
  const bool known = attribute(&out.capability_major, kCapabilityMajor, 0) == 0 &&
                     attribute(&out.capability_minor, kCapabilityMinor, 0) == 0;
  if (known && out.capability_major >= kOldestCapabilityMajor) return "";
  return fmt::format("the GPU has compute capability {}.x, wanted 8.0 or newer (Ampere)",
                     out.capability_major);
}

// Throws UsageError. A resumed run has its device from its record, so its fix differs.
[[noreturn]] void refuse(const std::string& why, bool of_run) {
  throw UsageError(
      of_run ? fmt::format("the run was on --device cuda: {}; to continue it on the CPU, where the "
                           "last digits may differ, add --device cpu",
                           why)
             : fmt::format("--device cuda: {}; use --device cpu", why));
}

}  // namespace

CudaDriver read_cuda_driver() {
  CudaDriver out;
  void* const driver = dlopen(kDriver, RTLD_NOW);
  if (driver == nullptr) {
    out.problem = "this machine has no CUDA driver (libcuda.so.1)";
    return out;
  }
  out.present = true;
  out.problem = read(driver, out);
  return out;
}

std::filesystem::path cuda_plugin_path() { return program_path().parent_path() / kPlugin; }

void load_cuda_plugin(bool of_run) {
  if (const CudaDriver driver = read_cuda_driver(); !driver.problem.empty()) {
    refuse(driver.problem, of_run);
  }
  // cuBLAS needs this for reproducible bits; LibTorch refuses its products otherwise.
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  const std::filesystem::path path = cuda_plugin_path();
  if (!path_exists(path)) {
    refuse(fmt::format("{} was not built; install the CUDA 13.0 toolkit (nvcc) and build again",
                       path.string()),
           of_run);
  }
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    refuse(fmt::format("the CUDA plug-in cannot be loaded ({}); LibTorch's CUDA part needs the "
                       "wheels of tools/setup/cuda-wheels.txt unpacked beside torch/, where ./xrun "
                       "puts them if nvcc of CUDA 13 and a driver are installed",
                       dlerror()),
           of_run);
  }
}

}  // namespace xrun
