// Lock-free atomics only: signal handlers raise these flags.

#include "core/base/interrupt.h"

#include <atomic>

#include "core/base/activity.h"
#include "core/base/error.h"

namespace xrun {

namespace {

std::atomic<int> raised_by = 0;
std::atomic<bool> pause_wanted = false;
std::atomic<WorkPoll> work_poll = nullptr;
static_assert(std::atomic<int>::is_always_lock_free);  // as a signal handler requires

}  // namespace

void request_interrupt(int signal_number) {
  int none = 0;
  // Only from 0: the signal that came first decides the exit status.
  raised_by.compare_exchange_strong(none, signal_number);
}

bool interrupt_requested() {
  note_activity();
  return interrupt_signal() != 0;
}

// Relaxed: no other data is published with the flag.
int interrupt_signal() { return raised_by.load(std::memory_order_relaxed); }

void check_interrupt() {
  note_activity();
  if (const int signal_number = interrupt_signal()) throw Interrupted(signal_number);
}

void clear_interrupt() { raised_by.store(0); }

// The exchange writes the found value back into the parameter, which is ignored.
void clear_interrupt(int signal_number) { raised_by.compare_exchange_strong(signal_number, 0); }

// A run takes the request between two steps.
void request_pause() { pause_wanted.store(true); }

bool take_pause_request() {
  // The load first: an exchange writes to the cache line even if nobody asked for a pause.
  return pause_wanted.load(std::memory_order_relaxed) && pause_wanted.exchange(false);
}

// Returns the previous one, so that a caller can restore it.
WorkPoll set_work_poll(WorkPoll poll) { return work_poll.exchange(poll); }

void check_work_interrupt() {
  note_activity();
  if (interrupt_signal() == 0) return;
  if (const WorkPoll poll = work_poll) poll();
}

}  // namespace xrun
