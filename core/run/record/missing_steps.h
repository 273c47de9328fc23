#pragma once
// Steps that have no line in metrics.jsonl, where every body of a run writes one.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace xrun {

class MissingSteps {
 public:
  // A line of this step was read; steps grow, from 0.
  void has(int64_t step);
  // Steps below `end` should have one, too.
  void until(int64_t end);
  // "metrics.jsonl has no line of steps 13, 20 to 24 and 7 more"; "" if none is missing.
  std::string text() const;

 private:
  int64_t next_ = 0, count_ = 0;
  std::vector<std::pair<int64_t, int64_t>> ranges_;  // the first ones, first and last step
};

}  // namespace xrun
