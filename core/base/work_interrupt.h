#pragma once
// Cooperative cancellation inside long kernels.

namespace xrun {

// Called within long work while the interrupt flag (interrupt.h) is raised; throws Interrupted if
// the work may stop there. Any thread that works may call it.
using WorkPoll = void (*)();

// Sets it and returns the one before; nullptr, as it is at first: work is never stopped within. A
// prompt sets it; a run's own steps end before they stop.
WorkPoll set_work_poll(WorkPoll poll);

// Asks the poll if the flag is raised: one relaxed load otherwise. Models call it for each block,
// forward and backward.
void check_work_interrupt();

}  // namespace xrun
