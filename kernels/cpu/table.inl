// The table of one instruction set; the including source names it kName.

static const CpuKernels kTable = {
    kName,
    softmax_rows,
    softmax_from_lse,
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
};
