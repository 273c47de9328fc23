#pragma once
// The unit in which a metric was returned: one value per pair, sequence, token, group or chunk.

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "core/train/batches/unit.h"

namespace xrun {

class MicroBatch;

// The unit of a metric, decided over all micro-batches: within a single one, two units may have the
// same count.
class MetricUnit {
 public:
  // Keeps the candidates whose count in this micro-batch is the length of `value`. Among several,
  // `first`, the unit of the first loss, is preferred. Throws Error that names the metric if no
  // unit fits this micro-batch (with the lengths that would), or if none fits all micro-batches so
  // far.
  void narrow(const std::string& name, const at::Tensor& value, Unit first,
              const MicroBatch& micro);
  const std::vector<Unit>& candidates() const { return candidates_; }  // the preferred one first

 private:
  std::vector<Unit> candidates_;  // empty before the first micro-batch
};

// Throws Error: a metric had different units in two micro-batches.
[[noreturn]] void throw_two_units(const std::string& name, Unit one, Unit other);

}  // namespace xrun
