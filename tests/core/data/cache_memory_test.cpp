// The memory of a build is bounded, however long its file and its lines are.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "core/data/cache_reader.h"
#include "tests/core/data/scratch_folder.h"
#include "tests/core/data/toy_rows.h"

namespace xrun {
namespace {

namespace fs = std::filesystem;

// Text rows as a real worker makes them: a token for four bytes.
class QuarterRows : public ToyRows {
 public:
  std::unique_ptr<RowWorker> make_worker() const override {
    class Worker : public RowWorker {
     public:
      void encode(const RawRow& row, const std::string& place, EncodedRow& out) override {
        out = EncodedRow();
        const Json value = parse_row(row, place, out.repairs);
        const std::string& text = value.at("text").as_string();
        out.streams[0].ids.assign(text.size() / 4, 7);
        out.streams[0].trained.assign(text.size() / 4, 1);
      }
    };
    return std::make_unique<Worker>();
  }
};

// The largest resident size, in MB, of a process of its own that builds a cache.
double peak_of_build(const fs::path& root, const CacheSource& source) {
  const pid_t pid = ::fork();
  if (pid == 0)
    ::_exit(error_of([&] { ensure_cache(root, source, QuarterRows()); }).empty() ? 0 : 1);
  int status = 0;
  rusage usage{};
  ::wait4(pid, &status, 0, &usage);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return static_cast<double>(usage.ru_maxrss) / 1000;
}

TEST(CacheMemory, SlowLinesOf100MbTakeLessThanAGigabyte) {
  const ScratchFolder folder;
  char big[] = "/tmp/xrun_memory_XXXXXX";  // on a disk: memory is what is measured
  ASSERT_NE(::mkdtemp(big), nullptr);
  const fs::path root = big;
  {
    std::ofstream file(root / "rows.jsonl", std::ios::binary);
    const std::string piece(1'000'000, 'x');
    for (int row = 0; row < 4; ++row) {
      file << "{\"text\": \"";
      for (int i = 0; i < 100; ++i) file << piece;
      file << "\"}\n";
      for (int i = 0; i < 1000; ++i) file << "{\"text\": \"a short row\"}\n";
    }
  }
  CacheSource source = toy_source((root / "rows.jsonl").string(), kSegmentBytes);
  source.block_bytes = 1 << 20;
  for (int workers : {1, 3}) {
    source.workers = workers;
    const double peak = peak_of_build(root / std::to_string(workers), source);
    EXPECT_LT(peak, 1000) << workers << " workers";
    RecordProperty("peak_mb_" + std::to_string(workers), static_cast<int>(peak));
  }
  fs::remove_all(root);
}

}  // namespace
}  // namespace xrun
