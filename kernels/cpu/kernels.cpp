// Chooses the instruction set once, from what the processor reports.

#include "kernels/cpu/kernels.h"

#include <cstdlib>
#include <cstring>

namespace xrun::kernels {

namespace portable {
extern const CpuKernels kTable;
}
namespace avx2 {
extern const CpuKernels kTable;
}
namespace avx512 {
extern const CpuKernels kTable;
}

const CpuKernels* cpu_kernels_named(const char* name) {
  if (std::strcmp(name, "portable") == 0) return &portable::kTable;
  if (std::strcmp(name, "avx2") == 0) {
    // The table is compiled for AVX2 with FMA.
    const bool able = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return able ? &avx2::kTable : nullptr;
  }
  if (std::strcmp(name, "avx512") == 0) {
    // The builtin also checks that the operating system saves the wide registers.
    const bool able = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return able ? &avx512::kTable : nullptr;
  }
  return nullptr;
}

namespace {

const CpuKernels* choose() {
  // The program refuses an XRUN_CPU that names a set that this machine cannot run; it is ignored
  // here.
  if (const char* wanted = std::getenv("XRUN_CPU")) {
    if (const CpuKernels* table = cpu_kernels_named(wanted)) return table;
  }
  if (const CpuKernels* table = cpu_kernels_named("avx512")) return table;
  if (const CpuKernels* table = cpu_kernels_named("avx2")) return table;
  return &portable::kTable;
}

}  // namespace

const CpuKernels& cpu_kernels() {
  static const CpuKernels* const table = choose();
  return *table;
}

}  // namespace xrun::kernels
