// AVX2 with FMA: 32-byte vectors. Compiled with these instructions, so nothing else may live here.

#include "kernels/cpu/kernels.h"

namespace xrun::kernels {

namespace {

constexpr int kBytes = 32;
constexpr const char* kName = "avx2";

#include "kernels/cpu/table.inl"

}  // namespace

extern const CpuKernels* const kAvx2Table;
const CpuKernels* const kAvx2Table = &kTable;

}  // namespace xrun::kernels
