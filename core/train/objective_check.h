#pragma once
// Checks an objective on one micro-batch: its gradient against finite differences, the independence
// of its units, and that all values are finite.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/train/objective.h"

namespace xrun {

class MicroBatch;

// Returns the log-probs of a micro-batch that the objective has read, each [R] with gradient.
// The objective's inputs are computed from them at each call. The checks below move them in place
// and back; non_separable_row moves them back after an exception too.
using LogprobLeaves = std::function<std::vector<at::Tensor>(MicroBatch&)>;

// For each row of the data, the slope of the weighted loss along a random direction in the row's
// log-probs, by the objective's gradient and by central differences. Both sides of a pair are one
// row.
struct LogprobCheck {
  struct RowSlope {
    int64_t row = -1;     // its id
    double analytic = 0;  // by the gradient
    double numeric = 0;   // by differences
    // The difference beyond what rounding may explain, relative to the larger slope; NaN if a slope
    // is NaN.
    double error = 0;
  };
  std::vector<RowSlope> rows;  // in the order of larger_error
  int64_t without = 0;         // rows whose log-probs change no loss
  int64_t unsure = 0;          // rows whose slope is too small to tell from rounding
  bool narrow = false;         // the loss was not float64, so differences are coarse

  // Returns true if rounding explains a row's error; false if the error is not finite.
  bool agrees(const RowSlope& row) const;
};

// The order of LogprobCheck::rows: NaN errors first, then by falling error.
bool larger_error(const LogprobCheck::RowSlope& a, const LogprobCheck::RowSlope& b);

// Checks every row of a micro-batch. `leaves` must be float64. Throws what the objective throws.
LogprobCheck check_logprobs(MicroBatch& micro, const Objective& objective,
                            const LogprobLeaves& leaves);

// Looks for a non-separable loss: moves the log-probs of every second unit (pair, sequence or
// token) and returns the name ("pairs.jsonl:17") of the first other unit whose loss changed.
// Returns "" if none did, and for losses of several units, of groups or of chunks, which are not
// checked. Throws what the objective throws.
std::string non_separable_row(MicroBatch& micro, const Objective& objective,
                              const LogprobLeaves& leaves);

// A row whose loss is not finite, or whose gradient is not although every loss is.
struct NonFiniteRow {
  std::string row;  // "pairs.jsonl:17"
  bool gradient = false;
};

// Returns the first such row at the current log-probs; nothing if all are finite. Throws what the
// objective throws.
std::optional<NonFiniteRow> non_finite_row(MicroBatch& micro, const Objective& objective,
                                           const LogprobLeaves& leaves);

}  // namespace xrun
