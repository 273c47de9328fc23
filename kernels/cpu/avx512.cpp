// AVX-512 F, BW, DQ, VL: 64-byte vectors. Compiled with these instructions, so nothing else may
// live here.

#include "kernels/cpu/kernels.h"

namespace xrun::kernels {

namespace {

constexpr int kBytes = 64;
constexpr const char* kName = "avx512";

#include "kernels/cpu/table.inl"

}  // namespace

extern const CpuKernels* const kAvx512Table;
const CpuKernels* const kAvx512Table = &kTable;

}  // namespace xrun::kernels
