#pragma once
// What a loop is to a run: how long it is, and what a resume compares of its data.

#include "core/run/run.h"

namespace xrun {

struct StepLoop;

// The plan of a loop's phase: its steps, and of each of its sets the fingerprint and how the loop
// draws from it.
PhasePlan phase_plan_of(const StepLoop& loop);

}  // namespace xrun
