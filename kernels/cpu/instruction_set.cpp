// Every kernel for one instruction set. CMakeLists.txt compiles this file once per set, with the
// set's compiler flags, XRUN_INSTRUCTION_SET (portable, avx2 or avx512), XRUN_INSTRUCTION_SET_NAME
// (the same, quoted) and XRUN_VECTOR_BYTES.

#include "kernels/cpu/kernels.h"

namespace xrun::kernels {

namespace {

template <class... Arguments>
constexpr KernelTable<Arguments...> every_kernel(const KernelTable<Arguments...>*) {
  return {Kernel<Arguments>{&compute}..., XRUN_INSTRUCTION_SET_NAME};
}

// Never dereferenced: a null pointer of the type carries its argument list.
constexpr const CpuKernels* kWanted = nullptr;

}  // namespace

namespace XRUN_INSTRUCTION_SET {

extern const CpuKernels kTable;
constexpr CpuKernels kTable = every_kernel(kWanted);

}  // namespace XRUN_INSTRUCTION_SET

}  // namespace xrun::kernels
