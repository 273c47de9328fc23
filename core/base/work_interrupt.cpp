#include "core/base/work_interrupt.h"

#include <atomic>

#include "core/base/interrupt.h"

namespace xrun {

namespace {

std::atomic<WorkPoll> work_poll = nullptr;

}  // namespace

WorkPoll set_work_poll(WorkPoll poll) { return work_poll.exchange(poll); }

void check_work_interrupt() {
  if (!interrupt_requested()) return;
  if (const WorkPoll poll = work_poll) poll();
}

}  // namespace xrun
