#pragma once
// The matrix-product rate of this machine's CPU, against which a step's FLOPs are compared.

#include <c10/core/ScalarType.h>

#include <functional>

namespace xrun {

// Returns the peak FLOP/s that square products of a type reach with the current thread count: the
// fastest of LibTorch's BLAS, oneDNN and our row product. Takes about 0.2 s; uses no random
// numbers.
double time_peak(c10::ScalarType dtype);

// Returns the peak FLOP/s, at least `reached`. A machine is measured once: its peak is remembered
// in $XRUN_CACHE/measured/peak under (processor, instruction sets, threads, torch, type). A damaged
// file is measured again, and so is a peak below `reached`, since other programs slowed it down. A
// file that cannot be written is ignored.
//   dtype    that products compute in: fp32 for bf16 weights under GemmType::kFloat
//   reached  FLOP/s that a step has reached; 0: unknown
double measured_peak_flops(c10::ScalarType dtype, double reached = 0,
                           const std::function<double(c10::ScalarType)>& clock = time_peak);

}  // namespace xrun
