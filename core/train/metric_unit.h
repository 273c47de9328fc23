#pragma once
// The unit in which a metric was returned: one value per pair, sequence, token, group or chunk.

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "core/train/batches/unit.h"

namespace xrun {

class MicroBatch;

// The unit of a metric, decided over all its micro-batches: in one of them, two units may have
// equally many members.
class MetricUnit {
 public:
  // Narrows the units down to those whose count is the length of `value` in this micro-batch too.
  // `first`, the unit of the first loss, is preferred among several. Throws Error that names the
  // metric and the lengths it could have if none fits, or if none fits every micro-batch so far.
  void narrow(const std::string& name, const at::Tensor& value, Unit first,
              const MicroBatch& micro);
  const std::vector<Unit>& candidates() const { return candidates_; }  // the preferred one first

 private:
  std::vector<Unit> candidates_;  // empty before the first micro-batch
};

// Throws Error: a metric had different units in two micro-batches.
[[noreturn]] void throw_two_units(const std::string& name, Unit one, Unit other);

}  // namespace xrun
