// Any x86-64: 16-byte vectors.

#include "kernels/cpu/kernels.h"

namespace xrun::kernels {

namespace {

constexpr int kBytes = 16;
constexpr const char* kName = "portable";

#include "kernels/cpu/vector.inl"

#include "kernels/cpu/softmax_rows.inl"

#include "kernels/cpu/rms_norm.inl"

#include "kernels/cpu/rope.inl"

#include "kernels/cpu/swiglu.inl"

#include "kernels/cpu/decode_attention.inl"

#include "kernels/cpu/table.inl"

}  // namespace

extern const CpuKernels* const kPortableTable;
const CpuKernels* const kPortableTable = &kTable;

}  // namespace xrun::kernels
