// Every kernel for one instruction set. CMakeLists.txt compiles this file once per set, with its
// compiler flags, XRUN_INSTRUCTION_SET (portable, avx2 or avx512) and XRUN_VECTOR_BYTES.

#include "kernels/cpu/kernels.h"

#define XRUN_TEXT_OF(word) XRUN_TEXT(word)
#define XRUN_TEXT(word) #word

namespace xrun::kernels {

namespace {

template <class... Arguments>
constexpr KernelTable<Arguments...> every_kernel(const KernelTable<Arguments...>*) {
  return {Kernel<Arguments>{&compute}..., XRUN_TEXT_OF(XRUN_INSTRUCTION_SET)};
}

constexpr const CpuKernels* kWanted = nullptr;

}  // namespace

namespace XRUN_INSTRUCTION_SET {

extern const CpuKernels kTable;
constexpr CpuKernels kTable = every_kernel(kWanted);

}  // namespace XRUN_INSTRUCTION_SET

}  // namespace xrun::kernels
