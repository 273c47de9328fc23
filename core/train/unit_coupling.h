#pragma once
// Whether an objective is the sum over units that it promises to be.

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "core/train/objective.h"

namespace xrun {

class MicroBatch;

// Moves the log-probs of every second unit (pair, sequence or token) and returns the row's name
// ("pairs.jsonl:17") of the first other unit whose loss changed; "" if none did, or if the losses
// are of several units or of groups or chunks.
//   leaves  the log-probs of the micro-batch that the objective has asked for, [R] each; they are
//           moved in place, and moved back, where the objective throws too
// Throws what the objective throws.
std::string coupled_row(MicroBatch& micro, const Objective& objective,
                        const std::function<std::vector<at::Tensor>(MicroBatch&)>& leaves);

}  // namespace xrun
