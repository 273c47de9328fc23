// A slot is a sequence lock: a reader copies it, and copies again if the version changed meanwhile.

#include "core/dist/watch/flight_record.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/base/error.h"
#include "core/base/process_usage.h"
#include "core/base/strings.h"

namespace xrun {

namespace {

constexpr int kReadsAtOnce = 100;
constexpr int kMostSleeps = 200;  // a writer killed during a write leaves the version odd forever
constexpr timespec kSleep = {0, 1'000'000};

template <size_t size>
void set_text(char (&out)[size], std::string_view text) {
  const size_t length = std::min(text.size(), size - 1);
  std::memcpy(out, text.data(), length);
  std::memset(out + length, 0, size - length);
}

}  // namespace

std::string step_text(const RankStatus& status) {
  return status.step < 0 ? "before step 0" : fmt::format("step {}", status.step);
}

std::string status_text(const RankStatus& status, int64_t now_ms) {
  std::string out = step_text(status);
  const double seconds = static_cast<double>(std::max<int64_t>(now_ms - status.since_ms, 0)) / 1e3;
  const std::string call =
      status.call < 0 ? ""
                      : fmt::format("\"{}\" (collective {}, {})", status.label, status.call,
                                    format_bytes(static_cast<double>(status.bytes)));
  switch (status.state) {
    case RankState::kWaiting:
      out += fmt::format(", waiting in {} for {:.1f} s", call, seconds);
      break;
    case RankState::kComputing:
      out += fmt::format(", {} for {:.1f} s", status.in_lua != 0 ? "in Lua code" : "computing",
                         seconds);
      if (!call.empty()) out += " after " + call;
      break;
    case RankState::kLeft:
      out += ", left the run";
      if (!call.empty()) out += " after " + call;
      break;
  }
  if (status.line[0] != 0) out += fmt::format(", {}", status.line);
  return out;
}

FlightRecord::FlightRecord() : slot_(new RecordSlot) { slot_->status.since_ms = monotonic_ms(); }

void FlightRecord::share(int fd, int64_t index) {
  const size_t bytes = sizeof(RecordSlot) * static_cast<size_t>(index + 1);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  XRUN_CHECK(memory != MAP_FAILED, "the memory shared with `xrun launch` cannot be mapped: {}",
             std::strerror(errno));
  RecordSlot* const shared = static_cast<RecordSlot*>(memory) + index;
  shared->status = slot_->status;
  slot_ = shared;
}

template <class Change>
void FlightRecord::write(Change change) {
  const uint32_t version = slot_->version.load(std::memory_order_relaxed);
  slot_->version.store(version + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  change(slot_->status);
  slot_->version.store(version + 2, std::memory_order_release);
}

void FlightRecord::join() { slot_->joined.store(true, std::memory_order_relaxed); }

void FlightRecord::set_step(int64_t step) {
  write([&](RankStatus& status) { status.step = step; });
}

void FlightRecord::set_line(std::string_view line) {
  write([&](RankStatus& status) { set_text(status.line, line); });
}

int64_t FlightRecord::begin(std::string_view label, int64_t bytes) {
  const std::string line = call_site_ ? call_site_() : "";
  int64_t call = 0;
  write([&](RankStatus& status) {
    call = status.call = status.begun++;
    status.bytes = bytes;
    set_text(status.label, label);
    set_text(status.line, line);
  });
  return call;
}

void FlightRecord::wait_for(int64_t call, std::string_view label, int64_t bytes) {
  write([&](RankStatus& status) {
    status.call = call;
    status.bytes = bytes;
    status.since_ms = monotonic_ms();
    status.state = RankState::kWaiting;
    set_text(status.label, label);
  });
}

void FlightRecord::end() {
  write([&](RankStatus& status) {
    status.since_ms = monotonic_ms();
    status.state = RankState::kComputing;
  });
}

void FlightRecord::note_error(bool stops) {
  write([&](RankStatus& status) {
    status.failed_at = status.begun;
    if (stops) status.stopped = 1;
  });
}

void FlightRecord::renumber(int64_t begun) {
  write([&](RankStatus& status) { status.begun = begun; });
}

void FlightRecord::leave() {
  write([&](RankStatus& status) {
    status.since_ms = monotonic_ms();
    status.state = RankState::kLeft;
  });
}

void FlightRecord::set_failure(std::string_view text) { set_text(slot_->failure, text); }

RankStatus FlightRecord::read() const { return read_slot(*slot_); }

RankStatus read_slot(const FlightRecord::RecordSlot& slot) {
  RankStatus out;
  for (int sleeps = 0; sleeps < kMostSleeps; ++sleeps) {
    for (int reads = 0; reads < kReadsAtOnce; ++reads) {
      const uint32_t before = slot.version.load(std::memory_order_acquire);
      std::memcpy(static_cast<void*>(&out), &slot.status, sizeof out);
      std::atomic_thread_fence(std::memory_order_acquire);
      if (before % 2 == 0 && slot.version.load(std::memory_order_relaxed) == before) return out;
    }
    ::nanosleep(&kSleep, nullptr);  // the writer may have lost its core during a write
  }
  return out;
}

FlightRecord& flight_record() {
  static FlightRecord* const record = new FlightRecord;  // outlives every thread that reads it
  return *record;
}

void share_with_launcher(int64_t local_rank) {
  const char* const text = std::getenv("XRUN_RANK_RECORDS");
  if (text == nullptr) return;
  const int fd = std::atoi(text);
  flight_record().share(fd, local_rank);
  // Programs that this process starts must see neither of the two.
  ::unsetenv("XRUN_RANK_RECORDS");
  ::close(fd);
}

}  // namespace xrun
