#pragma once
// The steps of a loop over a data set: their sizes, and where in the set's stream each begins.

#include <cstdint>
#include <vector>

#include "core/data/packs/shuffle.h"

namespace xrun {

// Changes the size of a plan's steps, from one step on.
struct SizeChange {
  int64_t step = 0;
  int64_t units = 1;

  bool operator==(const SizeChange&) const = default;
};

// The steps of a phase: `epochs` passes over the set as one stream.
struct StepPlan {
  int64_t units = 1;    // pairs, sequences, prompts or windows per step, before the first change
  int64_t epochs = 1;   // 0: without end
  RowOrder order = {};  // of each epoch
  uint64_t seed = 0;
  std::vector<SizeChange> changes = {};  // by ascending step, from step 1 on

  int64_t units_at(int64_t step) const;
  // Returns the units of all steps before this one, at most 2^62.
  int64_t units_before(int64_t step) const;
  // Returns the number of steps that draw `drawn` units; the last one may be short.
  int64_t steps_of(int64_t drawn) const;
  // Returns the size of the largest of the first `steps` steps.
  int64_t most_units(int64_t steps) const;

  bool operator==(const StepPlan&) const = default;
};

}  // namespace xrun
