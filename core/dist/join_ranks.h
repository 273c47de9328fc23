#pragma once
// Joins the processes of a run.

#include <cstdint>
#include <memory>
#include <string>

#include "core/dist/collective_times.h"
#include "core/dist/ranks.h"
#include "core/dist/watch/flight_record.h"
#include "core/dist/watch/judge.h"
#include "core/dist/watch/rank_environment.h"
#include "core/dist/watch/watchdog.h"

namespace xrun {

struct JoinOptions {
  std::string program;  // lines "name value" that tell builds apart
  FlightRecord* record = &flight_record();
  bool check = false;  // compare label, shapes and dtypes of every call over ranks before it runs
  CollectiveTimes* times = nullptr;  // of the calls of host memory, if set; outlives the group
  WatchdogHooks hooks;
  WatchLimits limits = watch_limits();
};

// Joins the other processes that `env` describes; returns once all have come. Notes each call in
// the record, which must outlive the group. Throws Error if they do not meet (rendezvous.h).
std::unique_ptr<Ranks> join_ranks(const RankEnvironment& env, const JoinOptions& options);

}  // namespace xrun
