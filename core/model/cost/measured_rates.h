#pragma once
// The rates of a step on this machine, measured on parts of a model: blocks, the head, the
// embedding and the update.

#include <ATen/core/Tensor.h>

#include "core/model/cost/step_forecast.h"
#include "core/model/model.h"

namespace xrun {

// A micro-batch whose parts are timed: its computed tokens, and the targets of its distinct
// predictions.
struct TimedPack {
  PackInput input;
  at::Tensor target;  // [R] int64, on the model's device
};

// Returns the rates of a model's step, all but `link`, on the device and in the types of the
// options, with the current thread count. It times forward and backward of one block of each kind,
// of the head and of the embedding, and the update of 2^24 weights. The weights are made up without
// random numbers. On the CPU long packs and large vocabularies are cut, so that it takes about two
// seconds. Throws Error for a pack without tokens or targets.
//   options  dtype, gemm, adapter and device; all weights are trained, or the adapter alone
StepRates measure_rates(const ModelConfig& config, const LoadOptions& options,
                        const TimedPack& pack);

}  // namespace xrun
