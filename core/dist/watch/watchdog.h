#pragma once
// Detects ranks that died, stopped, hang or left, and ends the others. Each rank has a thread that
// reports to rank 0 four times a second; rank 0 judges, the others judge rank 0.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/dist/watch/flight_record.h"
#include "core/dist/watch/judge.h"
#include "core/dist/watch/rank_environment.h"
#include "core/dist/watch/socket.h"
#include "core/dist/watch/stopped.h"
#include "core/dist/watch/watch_peers.h"

namespace xrun {

struct WatchdogHooks {
  // Prints a line that needs no action of the program.
  std::function<void(const std::string& text)> notice;
  // Ends the process with verdict.status and does not return; prints the text first if `reports`,
  // which one rank does.
  std::function<void(const RankVerdict& verdict, bool reports)> end;
  // Asks the running Lua code to call record.set_line. Called while it shows no progress.
  std::function<void()> ask_line;
  // Called on the watchdog's thread, at every beat, while the error of another rank keeps it from
  // joining a collective that this rank has begun.
  std::function<void()> left_alone = {};
};

// A watchdog's connection to that of rank 0.
struct WatchConnection {
  Socket socket;        // listens on rank 0; on the others it is connected to rank 0
  uint64_t run_id = 0;  // random; rank 0 ignores processes that give another one
};

// After a verdict the hook `end` is called on the watchdog's thread. Two kinds of ranks first get
// time to end by themselves:
//   5 s   the rank that prints the verdict, if it waits in a collective and so can throw
//   60 s  a rank that computes when another one reports its own error, since it may be saving
class Watchdog {
 public:
  // Starts the thread; the main thread is the caller's.
  Watchdog(const RankEnvironment& env, FlightRecord& record, WatchConnection connection,
           WatchdogHooks hooks, const WatchLimits& limits);
  // Leaves in an orderly way.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  std::optional<RankVerdict> verdict() const;
  // Waits at most `seconds` for a verdict and returns it.
  std::optional<RankVerdict> await_verdict(double seconds) const;

  // Reports an error of this rank, which ends the run. Returns only if this rank must print it: on
  // rank 0 once the others know, elsewhere if rank 0 does not answer within 3 s.
  void fail(int status, const std::string& message);

  // Called after an error of this rank: waits until every rank has an error after the same number
  // of collectives, so that all may go on with the next one. Returns false as soon as another rank
  // waits in a collective that this one will not join, has left or is gone, or after 10 s.
  bool fails_together();

  // Called once, after the error `message` that ends the run of this rank: waits at most 60 s until
  // every rank has called it. A rank that waits in a collective which this rank will not join
  // learns of the error from error_before(). After kApart the next collective has the same number
  // on all ranks.
  Stopped stop_together(const std::string& message);
  // Returns the error that keeps another rank from joining collective `call`, or nothing while all
  // may join it.
  std::optional<RankVerdict> error_before(int64_t call);

 private:
  Stopped await_errors(std::unique_lock<std::mutex>& lock, std::chrono::seconds limit);
  void run();
  void beat();
  void take(int64_t rank, const Frame& frame);
  void take_hello(int64_t rank, const std::string& body);
  void take_table(const std::string& body);
  void send_beat();
  void send_failure();
  void send_error();
  void send_status();
  void set_error(int64_t rank, const std::string& message);
  std::string table() const;
  RankStatus own_status();
  void note_stops();
  void compare_errors();
  std::optional<Stopped> compare_stops();
  std::optional<Stopped> compare_failures() const;
  RankVerdict with_error(RankVerdict found) const;
  void decide();
  void decide_about_rank_0();
  void settle(const RankVerdict& verdict, bool reports);
  bool ends_by_itself(const RankVerdict& verdict, bool reports);
  void leave();

  const RankEnvironment env_;
  FlightRecord& record_;
  const WatchdogHooks hooks_;
  const WatchLimits limits_;
  Socket wake_;  // ends the thread's wait
  int64_t main_thread_ = 0;
  clockid_t main_cpu_{};
  WatchPeers peers_;
  std::vector<RankView> ranks_;
  int64_t last_ms_ = 0;  // when the loop last ran
  int64_t beat_ms_ = 0;
  int64_t table_ms_ = 0;
  std::string last_notice_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::optional<RankVerdict> verdict_;
  std::string own_failure_;
  int own_failure_status_ = 0;
  bool failed_ = false;                   // fail() was called
  int64_t failed_at_ = -1;                // RankStatus::failed_at that await_errors() asks about
  std::optional<Stopped> answer_;         // of await_errors(), set by the watchdog's thread
  bool stops_ = false;                    // stop_together() was called
  bool asks_to_stop_ = false;             // and asks now, not fails_together()
  int64_t most_begun_ = 0;                // most collectives begun by a rank when all had stopped
  std::optional<std::string> own_error_;  // that stops this rank, until it is sent
  std::optional<RankVerdict> error_;      // the first that stopped a rank, the same one on all
  int64_t stopped_at_ = std::numeric_limits<int64_t>::max();  // the first that a rank never joins
  bool told_ = false;                                         // error_before() returned error_
  bool reports_ = false;                                      // this rank prints the verdict
  bool stopping_ = false;

  std::thread thread_;
};

}  // namespace xrun
