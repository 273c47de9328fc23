#pragma once
// The flight record of a rank: its step, its current collective and its recipe line, in memory that
// its watchdog and `xrun launch` can read, even after the rank was killed.

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace xrun {

enum class RankState : int32_t {
  kComputing,  // or in Lua code
  kWaiting,    // for the end of a collective
  kLeft,       // the run, in an orderly way
};

// Trivially copyable: shared memory and sockets carry its bytes as they are. Texts are cut to fit.
struct RankStatus {
  int64_t step = -1;       // of the training loop; -1 before the first
  int64_t begun = 0;       // collectives that this rank has begun
  int64_t call = -1;       // number of the collective below, from 0; -1 before the first
  int64_t bytes = 0;       // of its tensors on this rank
  int64_t since_ms = 0;    // when the state began: CLOCK_MONOTONIC
  int64_t cpu_ms = 0;      // while the main thread had a processor or waited for one
  int64_t work_ms = 0;     // of all threads but the watchdog
  int64_t failed_at = -1;  // collectives that it had begun at its latest error; -1: no error
  uint64_t activity = 0;   // activity_count()
  RankState state = RankState::kComputing;
  int32_t in_lua = 0;
  int32_t outside = 0;  // a thread waits for a file, a disk or a program (process_work.h)
  int32_t stopped = 0;  // by the error of failed_at: no collective of its step follows
  char label[88] = "";  // of the collective that it waits for, or the last one
  char line[128] = "";  // of the recipe that made it: "recipes/dpo.lua:31"
};

// Returns "step 17, waiting in \"gradient bucket 3\" (collective 118, 4.2 MB) for 0.4 s,
// recipes/dpo.lua:31"; `now_ms` is CLOCK_MONOTONIC.
std::string status_text(const RankStatus& status, int64_t now_ms);

// Returns "step 17", or "before step 0".
std::string step_text(const RankStatus& status);

// One rank's record. One thread writes; any thread or process reads.
class FlightRecord {
 public:
  // Returns the file and line of the recipe that runs, or "". Called by begin() on its thread.
  using CallSite = std::function<std::string()>;

  FlightRecord();
  FlightRecord(const FlightRecord&) = delete;
  FlightRecord& operator=(const FlightRecord&) = delete;

  // Moves the record to slot `index` of the shared memory `fd` that `xrun launch` made, which stays
  // mapped to the end of the process. Throws Error if it cannot be mapped.
  void share(int fd, int64_t index);
  void join();  // this rank has met the others

  void set_call_site(CallSite call_site) { call_site_ = std::move(call_site); }
  void set_step(int64_t step);
  // Sets the line that runs, for Lua code that has made no call for a long time.
  void set_line(std::string_view line);

  // A collective begins; returns its number.
  int64_t begin(std::string_view label, int64_t bytes);
  // The rank waits for the end of that collective, until end().
  void wait_for(int64_t call, std::string_view label, int64_t bytes);
  void end();
  void note_error(bool stops);  // this rank threw; `stops`: the error ends its run
  // Sets the number of the next collective, for ranks that stopped after different numbers of them.
  void renumber(int64_t begun);
  void leave();  // the run, in an orderly way
  // Keeps the report of a failure for `xrun launch`.
  void set_failure(std::string_view text);

  RankStatus read() const;

  struct RecordSlot;

 private:
  template <class Change>
  void write(Change change);

  CallSite call_site_;
  RecordSlot* slot_;
};

// The memory of a record, shared once share() was called. The version is odd during a write.
struct FlightRecord::RecordSlot {
  std::atomic<uint32_t> version = 0;
  RankStatus status;
  std::atomic<bool> joined = false;
  char failure[1024] = "";
};

// Returns a consistent copy of a slot's status, or after 0.2 s the bytes that are there, if the
// writer was stopped in the middle of a write.
RankStatus read_slot(const FlightRecord::RecordSlot& slot);

// The record of this process.
FlightRecord& flight_record();

// If `xrun launch` started this process, moves its record to the memory that the launcher reads.
//   local_rank  of this process among those of its launcher
void share_with_launcher(int64_t local_rank);

}  // namespace xrun
