#pragma once
// The CPU kernels, compiled for portable, AVX2 and AVX-512 vectors; the set is chosen at run time.
//
// A kernel is a struct of arguments and a `compute` that takes it. CpuKernels below is the only
// list of argument types. Every kernel works on the rows it is given, on the calling thread; the
// caller splits rows over threads at boundaries that depend only on the shape. Rows are contiguous.
// Arithmetic is fp32 (long sums fp64) whatever the storage type.

#include "kernels/cpu/activation_rows.h"
#include "kernels/cpu/cached_attention.h"
#include "kernels/cpu/exp_row.h"
#include "kernels/cpu/head_rows.h"
#include "kernels/cpu/rms_norm.h"
#include "kernels/cpu/rope.h"
#include "kernels/cpu/row_product.h"
#include "kernels/cpu/softmax_rows.h"
#include "kernels/cpu/swiglu.h"
#include "kernels/cpu/tree_attention.h"

namespace xrun::kernels {

template <class Arguments>
struct Kernel {
  void (*compute)(const Arguments&);
};

// One kernel for each argument type.
template <class... Arguments>
struct KernelTable : Kernel<Arguments>... {
  const char* name;  // "portable", "avx2", "avx512"

  template <class A>
  void run(const A& arguments) const {
    static_cast<const Kernel<A>&>(*this).compute(arguments);
  }
};

using CpuKernels =
    KernelTable<SoftmaxRows, SoftmaxFromLse, HeadRows, HeadRowsBackward, RmsNorm<float>,
                RmsNorm<Bf16>, RmsNormBackward<float>, RmsNormBackward<Bf16>, SwiGlu<float>,
                SwiGlu<Bf16>, SwiGluBackward<float>, SwiGluBackward<Bf16>, Rope<float>, Rope<Bf16>,
                CachedAttention<float>, CachedAttention<Bf16>, PathAttention<float>,
                PathAttention<Bf16>, PathAttentionBackward<float>, PathAttentionBackward<Bf16>,
                ExpRow, RowProduct, PackColumns, ActivationRows<float>, ActivationRows<Bf16>>;

// Returns the kernels for this machine, chosen once: AVX-512, AVX2 or portable. XRUN_CPU=avx512,
// avx2 or portable in the environment selects another; the program refuses one it cannot run.
const CpuKernels& cpu_kernels();

// Returns the kernels of one instruction set, or nullptr if the machine cannot run it.
const CpuKernels* cpu_kernels_named(const char* name);

}  // namespace xrun::kernels
