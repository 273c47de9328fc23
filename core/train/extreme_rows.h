#pragma once
// The rows of a batch or a set by what an objective says of them: rows{by = "margin"}.

#include <cstdint>
#include <string>
#include <vector>

#include "core/train/objective.h"

namespace xrun {

class Batch;
class MicroBatch;
class Tokenizer;

// One unit of the data and its value.
struct ExtremeRow {
  double value = 0;
  std::string place;  // "pairs.jsonl:17"
  std::string text;   // the first tokens that are trained, of a pair its chosen side's; any bytes
  std::string rejected = {};  // and its rejected side's
};

// Takes in what an objective returns for micro-batches and keeps the extremes by one of its
// metrics, or by "loss".
class ExtremeRows {
 public:
  // `most` rows are kept, those of the lowest values or of the highest.
  ExtremeRows(std::string by, int64_t most, bool highest, const Tokenizer* tokenizer);

  // Throws Error that names what there is if the objective gives no `by`.
  void add(const ObjectiveResult& result, const MicroBatch& micro);
  // From the most extreme one on; equal ones in the order of the data.
  std::vector<ExtremeRow> rows() const;
  int64_t seen() const { return seen_; }

 private:
  void set_texts(const MicroBatch& micro, Unit unit, int64_t i, ExtremeRow& row) const;

  std::string by_;
  int64_t most_;
  bool highest_;
  const Tokenizer* tokenizer_;  // may be null: no texts
  std::vector<ExtremeRow> kept_;
  int64_t seen_ = 0;
};

}  // namespace xrun
