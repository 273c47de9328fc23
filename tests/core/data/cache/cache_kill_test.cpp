// kill -9 at random times of a build: committed rows are never lost and never built twice, and the
// finished cache has the bytes of an undisturbed build.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <chrono>
#include <random>

#include "core/data/cache/cache_build.h"
#include "core/data/cache/cache_manifest.h"
#include "core/data/cache/cache_reader.h"
#include "tests/core/data/cache/killed_process.h"
#include "tests/core/data/rows/toy_rows.h"
#include "tests/scratch_folder.h"

namespace xrun::cache_kill_test {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kRows = 6000;

// Counts the encodings of each line, in memory that killed children share with the test.
class LineCounts {
 public:
  LineCounts() {
    void* memory =
        ::mmap(nullptr, kLines, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    counts_ = static_cast<std::atomic<uint8_t>*>(memory);
  }
  ~LineCounts() { ::munmap(counts_, kLines); }
  void clear() { std::fill(counts_, counts_ + kLines, 0); }
  void add(int64_t line) { ++counts_[line]; }
  std::vector<int> first(int64_t lines) const { return {counts_ + 1, counts_ + 1 + lines}; }

 private:
  static constexpr size_t kLines = 1 << 14;
  std::atomic<uint8_t>* counts_;
};

class CacheKill : public testing::Test {
 protected:
  // Builds in a child process that is killed after a while. Returns whether it had ended by
  // itself, and well.
  bool build_and_kill(Microseconds patience) {
    return run_and_kill(patience, [&] { build_toys(folder_.path(), source_, counted_); });
  }

  // Lines of the source of which the rows are committed.
  int64_t committed_lines() const {
    if (!fs::exists(dir_ / kPartialName)) return 0;
    return read_manifest(dir_, kPartialName).ledger.lines;
  }

  Microseconds time_of_build() {
    const auto start = std::chrono::steady_clock::now();
    build_toys(folder_.path(), source_);
    return std::chrono::duration_cast<Microseconds>(std::chrono::steady_clock::now() - start);
  }

  void kill_builds(int workers, int wanted) {
    source_ = toy_source(folder_.write("toys.jsonl", toy_file(kRows)));
    source_.workers = workers;
    dir_ = toy_dir(folder_.path(), source_);
    const Microseconds whole = time_of_build();
    const auto clean = files_of(dir_);
    std::mt19937 random(static_cast<unsigned>(workers));
    int kills = 0;
    int resumed = 0;
    while (kills < wanted || resumed == 0) {
      fs::remove_all(dir_);
      counts_.clear();
      int64_t committed = 0;
      for (bool done = false; !done;) {  // kill after kill, until one gets through
        const std::vector<int> before = counts_.first(committed);
        done = build_and_kill(whole * (50 + random() % 950) / 1000);
        ASSERT_EQ(counts_.first(committed), before) << "a committed row was encoded again";
        if (fs::exists(dir_ / kManifestName)) break;
        ++kills;
        const int64_t now = committed_lines();
        ASSERT_GE(now, committed) << "a committed row was lost";
        resumed += committed > 0 && now > committed;
        committed = now;
      }
      const std::vector<int> once = counts_.first(kRows);
      build_toys(folder_.path(), source_, counted_);
      ASSERT_EQ(counts_.first(kRows), once) << "a row of a finished cache was encoded again";
      ASSERT_EQ(files_of(dir_), clean);
      CacheReader(dir_, "text").verify();
    }
    RecordProperty("kills", kills);
  }

  ScratchFolder folder_;
  LineCounts counts_;
  const RowEncoderMaker counted_ = watched_rows([this](int64_t line) { counts_.add(line); });
  CacheSource source_;
  fs::path dir_;
};

TEST_F(CacheKill, AKillLosesNoCommittedRow) { kill_builds(2, 1); }
TEST_F(CacheKill, SlowAHundredKillsWithOneWorkerChangeNoByte) { kill_builds(1, 100); }
TEST_F(CacheKill, SlowAHundredKillsWithThreeWorkersChangeNoByte) { kill_builds(3, 100); }

}  // namespace
}  // namespace xrun::cache_kill_test
