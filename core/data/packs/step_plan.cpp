// Between two changes all steps have one size, so a plan is a few runs of equal steps.

#include "core/data/packs/step_plan.h"

#include <algorithm>
#include <functional>

namespace xrun {

namespace {

constexpr int64_t kMost = int64_t{1} << 62;

// Steps [begin, end) of one size.
struct EqualSteps {
  int64_t begin, end, units;
};

// Calls `each` with the runs in order until it returns false.
void walk(const StepPlan& plan, const std::function<bool(const EqualSteps&)>& each) {
  EqualSteps run{0, kMost, plan.units};
  for (const SizeChange& change : plan.changes) {
    run.end = change.step;
    if (!each(run)) return;
    run = {change.step, kMost, change.units};
  }
  each(run);
}

}  // namespace

int64_t StepPlan::units_at(int64_t step) const {
  int64_t size = units;
  for (const SizeChange& change : changes) {
    if (change.step <= step) size = change.units;
  }
  return size;
}

int64_t StepPlan::units_before(int64_t step) const {
  int64_t sum = 0;
  walk(*this, [&](const EqualSteps& run) {
    const int64_t steps = std::min(step, run.end) - run.begin;
    // Compared before multiplying, which could overflow.
    sum = steps > (kMost - sum) / run.units ? kMost : sum + steps * run.units;
    return sum < kMost && step > run.end;
  });
  return sum;
}

int64_t StepPlan::steps_of(int64_t drawn) const {
  int64_t steps = 0;
  walk(*this, [&](const EqualSteps& run) {
    const int64_t needed = drawn / run.units + (drawn % run.units != 0);
    const int64_t taken = std::min(needed, run.end - run.begin);
    steps += taken;
    drawn -= std::min(drawn, taken * run.units);
    return drawn > 0;
  });
  return steps;
}

int64_t StepPlan::most_units(int64_t steps) const {
  int64_t most = units;
  for (const SizeChange& change : changes) {
    if (change.step < steps) most = std::max(most, change.units);
  }
  return most;
}

}  // namespace xrun
