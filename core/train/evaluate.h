#pragma once
// Metrics of an objective over a whole data set, without gradient.

#include <functional>
#include <memory>
#include <vector>

#include "core/train/step.h"

namespace xrun {

class Batch;
class ExtraColumns;
class LogprobSource;
class DataSet;

struct EvaluateOptions {
  std::function<void()> poll;             // called between micro-batches; may throw
  const LogprobSource* policy = nullptr;  // whose logprob_<view> is reported; null: the first asked
  uint64_t seed = 0;                      // of the run
  int64_t step = 0;                       // bodies of the run done before it
  int64_t number = 0;                     // of this evaluation among those of its step
  c10::Device device = c10::kCPU;         // of the batches that it makes
  const ExtraColumns* extra = nullptr;    // of the set, if they are at hand; null: made here
};

// Gives the next batch, or null at the end.
using BatchStream = std::function<std::shared_ptr<Batch>()>;

// Returns loss, the objective's metrics, logprob_<view> and length_<view> over every unit of the
// stream: sums and weights in double, divided once at the end. A stream without a
// trained token, or whose trained tokens all weigh 0, gives no metrics; so does an empty one.
// Throws NonFiniteLoss as a step does.
//
// ATen's generator is seeded for each micro-batch from Philox(seed, stream, step, number and
// micro-batch) and put back at the end: what an objective draws is the same in every run, and the
// recipe's own draws do not depend on how many evaluations it makes.
Metrics evaluate(const BatchStream& next, const Objective& objective,
                 const EvaluateOptions& options = {});

// The same over every row of a set, each weighted once. Packs are made of the rows in cache order
// by max_tokens alone, so that the number of pairs of a training batch changes no bit.
Metrics evaluate(const DataSet& set, int64_t max_tokens, const Objective& objective,
                 const EvaluateOptions& options = {});

}  // namespace xrun
