// A build that stops for a reason other than its data keeps its committed shards.

#include <gtest/gtest.h>

#include "core/base/file_fault.h"
#include "core/data/cache/cache_build.h"
#include "core/data/cache/cache_manifest.h"
#include "tests/core/data/rows/toy_rows.h"
#include "tests/scratch_folder.h"

namespace xrun::cache_stop_test {
namespace {

namespace fs = std::filesystem;

TEST(CacheStop, SlowAFailedReadKeepsCommittedShards) {
  const ScratchFolder folder;
  CacheSource source = toy_source(folder.write("toys.jsonl", toy_file(1500)));
  const auto clean = files_of(build_toys(folder.path() / "clean", source));
  int kept = 0;
  bool failed = true;
  for (int64_t n = 1; failed; n += 7) {
    const fs::path root = folder.path() / std::to_string(n);
    const fs::path partial = toy_dir(root, source) / kPartialName;
    set_file_fault("read", n);
    std::string message = error_of([&] { build_toys(root, source); });
    failed = !message.empty();
    if (fs::exists(partial)) {
      // Neither does a failure when the build continues.
      ++kept;
      const size_t shards = read_manifest(partial.parent_path(), kPartialName).shards.size();
      set_file_fault("read", 1);
      message += error_of([&] { build_toys(root, source); });
      EXPECT_EQ(read_manifest(partial.parent_path(), kPartialName).shards.size(), shards);
    }
    set_file_fault("", 0);
    EXPECT_EQ(message.find("toys.jsonl: cannot be read") != std::string::npos, failed) << message;
    ASSERT_EQ(files_of(build_toys(root, source)), clean) << n;
    ASSERT_LT(n, 500);
  }
  EXPECT_GT(kept, 3);
}

TEST(CacheStop, StrictStopsAtTheFirstBadRowAndKeepsCommittedShards) {
  const ScratchFolder folder;
  std::string rows;
  for (int i = 0; i < 400; ++i) rows += "{\"text\":\"some letters\"}\n";
  CacheSource source = toy_source(folder.write("toys.jsonl", rows + "{\"text\":\"bad\"}\n" + rows));
  const auto clean = files_of(build_toys(folder.path() / "clean", source));
  source.strict = true;
  std::string message = error_of([&] { build_toys(folder.path(), source); });
  EXPECT_NE(message.find("of the first 401 rows 1 would be dropped"), std::string::npos) << message;
  EXPECT_NE(message.find("toys.jsonl:401  bad: it says so"), std::string::npos) << message;
  const fs::path dir = toy_dir(folder.path(), source);
  EXPECT_GT(read_manifest(dir, kPartialName).rows(), 0);
  source.strict = false;
  set_file_fault("fsync", 12);  // after the bad row
  EXPECT_NE(error_of([&] { build_toys(folder.path(), source); }).find("free some space"),
            std::string::npos);
  set_file_fault("", 0);
  ASSERT_EQ(read_manifest(dir, kPartialName).ledger.dropped_total(), 1);
  source.strict = true;
  message = error_of([&] { build_toys(folder.path(), source); });
  EXPECT_NE(message.find("toys.jsonl:401  bad: it says so"), std::string::npos) << message;
  source.strict = false;
  EXPECT_EQ(files_of(build_toys(folder.path(), source)), clean);
}

}  // namespace
}  // namespace xrun::cache_stop_test
