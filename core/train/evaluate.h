#pragma once
// Forwards without gradient: metrics over a data set, and log-probs of every token of a pack.

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/data/packs/packed_batch.h"
#include "core/train/batches/micro_batch.h"
#include "core/train/step.h"

namespace xrun {

class Batch;
class ExtraColumns;
class LogprobSource;
class DataSet;
class Ranks;

struct EvaluateOptions {
  // Called before each micro-batch with the number of tokens in those before it; may throw.
  std::function<void(int64_t tokens)> poll;
  const LogprobSource* policy = nullptr;  // source of logprob_<view>; null: the first one used
  uint64_t seed = 0;                      // of the run
  int64_t step = 0;                       // bodies of the run done before it
  int64_t number = 0;                     // of this evaluation among those of its step
  c10::Device device = c10::kCPU;         // of the batches that it makes
  const ExtraColumns* extra = nullptr;    // of the set, if the caller has them; null: made here
  FoldSettings fold = {};                 // of the batches that it makes
  BatchTokenizer tokenizer = {};          // of the set
  Ranks* ranks = nullptr;                 // share the micro-batches; null: this process alone
};

// Returns the next batch, null at the end.
using BatchStream = std::function<std::shared_ptr<Batch>()>;

// Returns loss, the objective's metrics, logprob_<view> and length_<view> over every unit of the
// stream: sums and weights in double, divided once at the end. Without a trained token of weight
// above 0 there are no metrics.
// Throws NonFiniteLoss as a step does. Ranks are dealt the micro-batches one by one, and each gets
// the metrics of all, with the same bits.
//
// ATen's generator is seeded for each micro-batch from Philox(seed, stream, step, number and
// micro-batch) and restored at the end: an objective draws the same numbers in every run, and the
// recipe's own draws do not depend on the number of evaluations.
Metrics evaluate(const BatchStream& next, const Objective& objective,
                 const EvaluateOptions& options = {});

// Evaluates every row of a set, once each. The packs depend only on cache order and max_tokens, so
// the size of a training batch changes no bit.
Metrics evaluate(const DataSet& set, int64_t max_tokens, const Objective& objective,
                 const EvaluateOptions& options = {});

// Returns log p of each token given those before it in its segment, [T]; NaN for the first token of
// a segment. One forward without gradient. `info` names the data and the device.
std::vector<float> token_scores(LogprobSource& source, const PackedBatch& pack, BatchInfo info);

// Puts ATen's generators (the CPU's and that of the GPU in use) back at the end of the scope, so
// that adding or removing an evaluation changes no other random number.
class RandomScope {
 public:
  RandomScope();
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  std::vector<std::pair<at::Generator, at::Tensor>> states_;
};

}  // namespace xrun
