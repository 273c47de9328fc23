#pragma once
// What a rank does at this moment, kept where its watchdog and `xrun launch` can read it, after a
// kill too.

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace xrun {

enum class RankState : int32_t {
  kComputing,     // outside of collectives
  kInCollective,  // has begun one, or waits for its end
  kEnded,         // left the run in an orderly way
};

// Plain bytes: shared memory and sockets carry it as it is.
struct RankStatus {
  int64_t step = -1;      // of the training loop; -1 before the first
  int64_t sequence = -1;  // number of the last collective, from 0; -1 before the first
  int64_t bytes = 0;      // of its tensors on this rank
  int64_t since_ms = 0;   // CLOCK_MONOTONIC when the state began
  uint64_t activity = 0;  // grows while the rank makes progress
  RankState state = RankState::kComputing;
  char label[84] = "";  // of that collective; cut to fit, as all texts here
  char line[128] = "";  // of the recipe that made it: "recipes/dpo.lua:31"
};

// Returns "step 17, in \"gradient bucket 3\" (collective 118, 4.2 MB) for 0.4 s,
// recipes/dpo.lua:31"; `now_ms` is the machine's CLOCK_MONOTONIC.
std::string status_text(const RankStatus& status, int64_t now_ms);

// CLOCK_MONOTONIC in milliseconds, the same for all processes of a machine.
int64_t monotonic_ms();

// The record of this process. One thread writes, any thread or process reads.
class FlightRecord {
 public:
  // Returns the file and line of the recipe that runs, or "". Called by begin() on its thread.
  using CallSite = std::function<std::string()>;

  FlightRecord();
  FlightRecord(const FlightRecord&) = delete;
  FlightRecord& operator=(const FlightRecord&) = delete;

  // Moves the record to the slot `index` of the shared memory `fd` that `xrun launch` made, which
  // stays mapped to the end of the process. Throws Error if it cannot be mapped.
  void share(int fd, int64_t index);

  void set_call_site(CallSite call_site) { call_site_ = std::move(call_site); }
  void set_step(int64_t step);
  void begin(std::string_view label, int64_t bytes);
  void end();  // of the collective
  void leave();  // the run, in an orderly way

  RankStatus read() const;

  struct Slot;

 private:
  template <class Change>
  void write(Change change);

  CallSite call_site_;
  Slot* slot_;
};

// A record in shared memory: the version is odd while it is written.
struct FlightRecord::Slot {
  std::atomic<uint32_t> version = 0;
  RankStatus status;
};

// Returns a copy of a slot's status that no write tore apart.
RankStatus read_slot(const FlightRecord::Slot& slot);

// The record of this process.
FlightRecord& flight_record();

}  // namespace xrun
