#pragma once
// Decides from the known states of all ranks whether one of them has failed.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/dist/watch/flight_record.h"

namespace xrun {

// A rank as the judging rank sees it. Times are those of the judge's CLOCK_MONOTONIC.
struct RankView {
  RankStatus status;
  int64_t heard_ms = 0;       // its last message
  int64_t active_ms = 0;      // its last change: a call, a collective, a sign of work
  int64_t active_cpu_ms = 0;  // status.cpu_ms at that time
  int64_t alive_ms = 0;       // when it last had such a change, used a processor or waited outside
  int64_t alive_work_ms = 0;  // status.work_ms at that time
  bool closed = false;        // its connection ended
  bool left = false;          // in an orderly way, which it had reported
  std::string failure;        // the error that it reported
  int failure_status = 1;     // its exit status for that error

  // Takes a newer status, received at `now_ms`, whose times are converted already.
  void update(const RankStatus& newer, int64_t now_ms);
};

struct WatchLimits {
  int64_t silent_ms = 8000;   // without a message: stopped, or its machine is gone
  int64_t hang_ms = 12000;    // busy in Lua code without a call of the engine, or idle
  int64_t stuck_ms = 600000;  // no activity otherwise: computing, or waiting for a file or program
  int64_t late_ms = 2000;     // others wait for one that has left, or in another collective
};

// Returns the default limits; XRUN_DIST_HANG_S, in seconds, replaces hang_ms and stuck_ms. Throws
// UsageError as seconds_variable (rank_environment.h) does.
WatchLimits watch_limits();

struct RankVerdict {
  int64_t rank = 0;       // at fault
  int status = 1;         // exit status of all ranks
  bool reported = false;  // the rank reported its own error, so the others may still save
  std::string text;       // "rank 2 of 4: step 17: what happened", then a line for each rank
};

// An error and the rank whose error it is.
struct RankFault {
  int64_t rank = 0;
  std::string what;
};

// Returns the rank at fault for `what`, an error of rank `rank`. If its first line quotes the error
// of another rank ("dpo.lua:31: rank 2 of 4: no luck"), that one is at fault, and the text comes
// back without the words that name it.
RankFault fault_in(int64_t rank, int64_t size, const std::string& what);

// Returns the verdict at `now_ms`, or nothing while all is well.
std::optional<RankVerdict> judge(const std::vector<RankView>& ranks, const WatchLimits& limits,
                                 int64_t now_ms);

// Returns a notice on a rank for which others have waited for `limits.hang_ms` and that may still
// go on, or "".
std::string late_notice(const std::vector<RankView>& ranks, const WatchLimits& limits,
                        int64_t now_ms);

// Returns the verdict on `what`, which rank `rank` reported or was found to have done, followed by
// the status of every rank. The rank at fault is that of fault_in.
RankVerdict failed_rank(const std::vector<RankView>& ranks, int64_t rank, const std::string& what,
                        int64_t now_ms);

}  // namespace xrun
