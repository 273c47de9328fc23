#pragma once
// The matrix-product rate of this machine's CPU, against which a step's FLOPs are compared.

#include <c10/core/ScalarType.h>

#include <functional>

namespace xrun {

// Returns the peak FLOP/s that square products of a type reach with the current thread count: the
// fastest of LibTorch's BLAS, oneDNN and our row product. Takes about 0.2 s; uses no random
// numbers.
double time_peak(c10::ScalarType dtype);

// Returns time_peak of the type that products compute in (fp32 for bf16 weights under
// GemmType::kFloat), at least `reached`. Remembered in $XRUN_CACHE/measured/peak under (processor,
// instruction sets, threads, torch, type), so that a machine is measured once. A damaged file, or a
// peak below `reached`, which other programs slowed down, is measured again; a file that cannot be
// written is ignored.
//   reached  FLOP/s that a step has reached; 0: unknown
double measured_peak_flops(c10::ScalarType dtype, double reached = 0,
                           const std::function<double(c10::ScalarType)>& clock = time_peak);

}  // namespace xrun
