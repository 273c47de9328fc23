#pragma once
// The steps of a loop over a set: their sizes, and where in the set's stream each begins.

#include <cstdint>
#include <vector>

#include "core/data/packs/shuffle.h"

namespace xrun {

// The size of a plan's steps from a step on.
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
  // Units of all steps before this one, at most 2^62.
  int64_t units_before(int64_t step) const;
  // The number of steps that draw `drawn` units; the last one may be short.
  int64_t steps_of(int64_t drawn) const;
  int64_t most_units(int64_t steps) const;  // of one of the first `steps` steps

  bool operator==(const StepPlan&) const = default;
};

}  // namespace xrun
