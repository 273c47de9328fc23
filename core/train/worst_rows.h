#pragma once
// The rows of a batch or a set with the lowest or highest value of a metric or the loss.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/train/metric_sums.h"

namespace xrun {

class MicroBatch;
class Tokenizer;

// One unit of the data and its value.
struct WorstRow {
  double value = 0;
  std::string row;            // "pairs.jsonl:17"
  std::string prompt = {};    // the last tokens before the answer; like the texts below, any bytes
  std::string text = {};      // the first trained tokens (of a pair: its chosen side)
  std::string rejected = {};  // those of a pair's rejected side
};

// Collects what an objective returns for micro-batches and ranks rows by one of its metrics, or by
// "loss".
class WorstRows {
 public:
  // Keeps the `most` rows with the lowest values, or the highest. Without a tokenizer (null) rows
  // have no text.
  WorstRows(std::string by, int64_t most, bool highest, const Tokenizer* tokenizer);

  // Throws Error that names the objective's metrics if there is no `by` among them.
  void add(const ObjectiveResult& result, const MicroBatch& micro);
  // Returns the most extreme row first, equal ones in the order of the data.
  std::vector<WorstRow> rows() const;
  int64_t seen() const { return seen_; }

 private:
  // The unit is known only once every micro-batch has been seen.
  struct Ranked {
    double value;
    std::shared_ptr<const MicroBatch> micro;
    int64_t index;
  };
  void set_texts(const MicroBatch& micro, Unit unit, int64_t i, WorstRow& row) const;

  std::string by_;
  int64_t most_;
  bool highest_;
  const Tokenizer* tokenizer_;
  MetricUnit unit_;
  std::vector<Ranked> ranked_;
  int64_t seen_ = 0;
};

}  // namespace xrun
