// Every kernel for one instruction set, and their table. The including source sets kBytes, the
// width of a vector, and kName, inside an unnamed namespace.

// Vectors come first, and what a file uses before it.
// clang-format off
#include "kernels/cpu/vector.inl"
#include "kernels/cpu/softmax_rows.inl"
#include "kernels/cpu/head_rows.inl"
#include "kernels/cpu/rms_norm.inl"
#include "kernels/cpu/rope.inl"
#include "kernels/cpu/swiglu.inl"
#include "kernels/cpu/decode_attention.inl"
#include "kernels/cpu/exp_row.inl"
// clang-format on

static const CpuKernels kTable = {
    kName,
    softmax_rows,
    softmax_from_lse,
    head_rows,
    head_rows_backward,
    rms_norm<float>,
    rms_norm<Bf16>,
    rms_norm_backward<float>,
    rms_norm_backward<Bf16>,
    swiglu<float>,
    swiglu<Bf16>,
    swiglu_backward<float>,
    swiglu_backward<Bf16>,
    rope<float>,
    rope<Bf16>,
    decode_attention<float>,
    decode_attention<Bf16>,
    exp_row,
};
