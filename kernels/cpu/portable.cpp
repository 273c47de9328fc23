// Any x86-64: 16-byte vectors.

#include "kernels/cpu/kernels.h"

namespace xrun::kernels {

namespace {

constexpr int kBytes = 16;
constexpr const char* kName = "portable";

#include "kernels/cpu/table.inl"

}  // namespace

extern const CpuKernels* const kPortableTable;
const CpuKernels* const kPortableTable = &kTable;

}  // namespace xrun::kernels
