// The choice of an instruction set, made once by what the processor says of itself.

#include "kernels/cpu/kernels.h"

#include <cstdlib>
#include <cstring>

namespace xrun::kernels {

extern const CpuKernels* const kPortableTable;
extern const CpuKernels* const kAvx2Table;
extern const CpuKernels* const kAvx512Table;

const CpuKernels* cpu_kernels_named(const char* name) {
  if (std::strcmp(name, "portable") == 0) return kPortableTable;
  if (std::strcmp(name, "avx2") == 0) {
    const bool able = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return able ? kAvx2Table : nullptr;
  }
  if (std::strcmp(name, "avx512") == 0) {
    const bool able = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return able ? kAvx512Table : nullptr;
  }
  return nullptr;
}

namespace {

const CpuKernels* choose() {
  if (const char* wanted = std::getenv("XRUN_CPU")) {
    if (const CpuKernels* table = cpu_kernels_named(wanted)) return table;
  }
  if (const CpuKernels* table = cpu_kernels_named("avx512")) return table;
  if (const CpuKernels* table = cpu_kernels_named("avx2")) return table;
  return kPortableTable;
}

}  // namespace

const CpuKernels& cpu_kernels() {
  static const CpuKernels* const table = choose();
  return *table;
}

}  // namespace xrun::kernels
