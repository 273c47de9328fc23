#pragma once
// The table of CPU kernels: one for each instruction set, chosen once by what the processor says.
//
// NOUN.h holds a kernel's arguments, NOUN.inl its code, which portable.cpp, avx2.cpp and avx512.cpp
// each compile for their own vectors. Every function works on the rows it is given, on the calling
// thread; the caller splits rows over threads at boundaries that the shape alone fixes. Rows are
// contiguous. Arithmetic is fp32 (long sums in fp64) whatever the storage type.

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/decode_attention.h"
#include "kernels/cpu/exp_row.h"
#include "kernels/cpu/head_rows.h"
#include "kernels/cpu/rms_norm.h"
#include "kernels/cpu/rope.h"
#include "kernels/cpu/softmax_rows.h"
#include "kernels/cpu/swiglu.h"

namespace xrun::kernels {

struct CpuKernels {
  const char* name;
  void (*softmax_rows)(const SoftmaxRows&);
  void (*softmax_from_lse)(const SoftmaxFromLse&);
  void (*head_rows)(const HeadRows&);
  void (*head_rows_backward)(const HeadRowsBackward&);
  void (*rms_norm_f32)(const RmsNorm<float>&);
  void (*rms_norm_bf16)(const RmsNorm<Bf16>&);
  void (*rms_norm_backward_f32)(const RmsNormBackward<float>&);
  void (*rms_norm_backward_bf16)(const RmsNormBackward<Bf16>&);
  void (*swiglu_f32)(const SwiGlu<float>&);
  void (*swiglu_bf16)(const SwiGlu<Bf16>&);
  void (*swiglu_backward_f32)(const SwiGluBackward<float>&);
  void (*swiglu_backward_bf16)(const SwiGluBackward<Bf16>&);
  void (*rope_f32)(const Rope<float>&);
  void (*rope_bf16)(const Rope<Bf16>&);
  void (*decode_attention_f32)(const DecodeAttention<float>&);
  void (*decode_attention_bf16)(const DecodeAttention<Bf16>&);
  void (*exp_row)(const ExpRow&);
};

// The table for this machine, chosen once: AVX-512, AVX2 or portable. XRUN_CPU=avx512, avx2 or
// portable in the environment chooses another that the machine can run.
const CpuKernels& cpu_kernels();

// The table of one instruction set, or nullptr if the machine cannot run it.
const CpuKernels* cpu_kernels_named(const char* name);

}  // namespace xrun::kernels
