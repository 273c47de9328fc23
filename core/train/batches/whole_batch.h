#pragma once
// Values of every micro-batch of a batch, computed by the ranks that share it.

#include <ATen/core/Tensor.h>

#include <functional>
#include <string_view>
#include <vector>

namespace xrun {

class Batch;
class MicroBatch;
class Ranks;

// Calls `score` for each micro-batch and returns what it gave, in the order of the micro-batches.
// If the batch has ranks, rank r calls it for micro-batches r, r + n, ..., and every rank gets
// all values with the same bits, without graphs, on the batch's device. `score` returns equally
// many tensors each time; undefined ones are legal. If it throws on one rank, all throw
// (core/dist/agreement.h).
std::vector<std::vector<at::Tensor>> score_micros(
    const Batch& batch, std::string_view label,
    const std::function<std::vector<at::Tensor>(MicroBatch& micro)>& score);

// Calls score_micros for a `score` that returns a single tensor.
std::vector<at::Tensor> score_micros_once(
    const Batch& batch, std::string_view label,
    const std::function<at::Tensor(MicroBatch& micro)>& score);

// Returns the mean of a tensor over ranks, in its type; the tensor itself if all have the same
// bits. Throws Error if the shapes differ.
at::Tensor mean_over_ranks(Ranks& ranks, const at::Tensor& x);

}  // namespace xrun
