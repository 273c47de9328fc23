// A flight record can be read at any time, even after its process was killed, and is never
// half-written.

#include "core/dist/watch/flight_record.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <thread>

namespace xrun {
namespace flight_record_test {

TEST(FlightRecord, TellsWhatARankDoes) {
  FlightRecord record;
  EXPECT_EQ(status_text(record.read(), record.read().since_ms + 1500),
            "before step 0, computing for 1.5 s");
  record.set_step(17);
  record.set_call_site([] { return std::string("recipes/dpo.lua:31"); });
  const int64_t call = record.begin("gradient bucket 3", 4200000);
  record.wait_for(call, "gradient bucket 3", 4200000);
  EXPECT_EQ(status_text(record.read(), record.read().since_ms + 400),
            "step 17, waiting in \"gradient bucket 3\" (collective 0, 4.2 MB) for 0.4 s, "
            "recipes/dpo.lua:31");
  record.end();
  EXPECT_EQ(status_text(record.read(), record.read().since_ms),
            "step 17, computing for 0.0 s after \"gradient bucket 3\" (collective 0, 4.2 MB), "
            "recipes/dpo.lua:31");
  record.leave();
  EXPECT_EQ(record.read().state, RankState::kLeft);
}

// A call that has begun and is not waited for leaves the rank computing.
TEST(FlightRecord, CountsPendingCalls) {
  FlightRecord record;
  const int64_t first = record.begin("first", 1);
  record.begin("second", 2);
  EXPECT_EQ(record.read().begun, 2);
  EXPECT_EQ(record.read().state, RankState::kComputing);
  record.wait_for(first, "first", 1);
  EXPECT_EQ(record.read().call, 0);
  EXPECT_STREQ(record.read().label, "first");
}

TEST(FlightRecord, CutsLongTexts) {
  FlightRecord record;
  record.begin(std::string(500, 'x'), 0);
  EXPECT_EQ(std::string(record.read().label).size(), sizeof(RankStatus::label) - 1);
}

TEST(FlightRecord, OfSharedMemoryOutlivesItsProcess) {
  const int fd = ::memfd_create("records", MFD_CLOEXEC);
  const size_t bytes = 3 * sizeof(FlightRecord::RecordSlot);
  ASSERT_EQ(::ftruncate(fd, static_cast<off_t>(bytes)), 0);
  auto* const slots = static_cast<FlightRecord::RecordSlot*>(
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  {
    FlightRecord record;
    record.set_step(4);
    record.share(fd, 2);
    record.begin("metrics", 8);
    record.set_failure("rank 2 of 3: step 4: no luck");
  }
  EXPECT_EQ(read_slot(slots[2]).step, 4);
  EXPECT_STREQ(read_slot(slots[2]).label, "metrics");
  EXPECT_STREQ(slots[2].failure, "rank 2 of 3: step 4: no luck");
  ::close(fd);
}

TEST(FlightRecord, IsNeverReadHalfWritten) {
  FlightRecord record;
  std::thread writer([&] {
    for (int i = 0; i < 20000; ++i) record.begin(i % 2 == 0 ? "aaaaaaaa" : "bbbbbbbb", i % 2);
  });
  int torn = 0;
  for (int i = 0; i < 20000; ++i) {
    const RankStatus status = record.read();
    if (status.begun == 0) continue;
    const char* const written = status.bytes == 0 ? "aaaaaaaa" : "bbbbbbbb";
    torn += std::strcmp(status.label, written) == 0 ? 0 : 1;
  }
  writer.join();
  EXPECT_EQ(torn, 0);
}

}  // namespace flight_record_test
}  // namespace xrun
