// Files that change while they are read, rows that change their columns, waits that are
// interrupted: no wrong row reaches a cache.

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "core/base/file_lock.h"
#include "core/data/cache/cache_build.h"
#include "core/data/cache/cache_manifest.h"
#include "tests/core/data/rows/toy_rows.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace xrun::cache_change_test {
namespace {

namespace fs = std::filesystem;

// The file with other letters in its last third, of the same size.
std::string changed_file(int64_t n) {
  std::string bytes = toy_file(n);
  for (size_t at = bytes.size() * 2 / 3; at < bytes.size(); ++at) {
    if (bytes[at] == '7') bytes[at] = '8';
  }
  return bytes;
}

TEST(CacheChange, AFileThatChangesDuringABuildIsRefusedUntilRestored) {
  const ScratchFolder folder;
  const std::string path = folder.write("toys.jsonl", toy_file(500));
  const CacheSource source = toy_source(path);
  const auto clean = files_of(build_toys(folder.path() / "clean", source));
  folder.write("toys.jsonl", changed_file(500));
  EXPECT_NE(error_of([&] { build_toys(folder.path(), source); }).find("changed while it was read"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(folder.path() / cache_key(source.key_document)));
  folder.write("toys.jsonl", toy_file(500));
  EXPECT_EQ(files_of(build_toys(folder.path(), source)), clean);
}

TEST(CacheChange, ShardsOfOtherBytesAreNotUsedAfterAKill) {
  const ScratchFolder folder;
  const std::string path = folder.write("toys.jsonl", toy_file(500));
  const CacheSource source = toy_source(path);
  const auto clean = files_of(build_toys(folder.path() / "clean", source));
  folder.write("toys.jsonl", changed_file(500));
  const RowEncoderMaker rows = interrupted_rows(toy_dir(folder.path(), source),
                                                480);  // after shards that hold changed rows
  EXPECT_EQ(signal_of([&] { build_toys(folder.path(), source, rows); }), SIGINT);
  clear_interrupt();
  ASSERT_TRUE(fs::exists(folder.path() / cache_key(source.key_document) / kPartialName));
  folder.write("toys.jsonl", toy_file(500));
  EXPECT_EQ(files_of(build_toys(folder.path(), source)), clean);
}

TEST(CacheChange, ShardsOfOtherColumnsAreNotUsed) {
  const ScratchFolder folder;
  const CacheSource source = toy_source(folder.write("toys.jsonl", toy_file(500)));
  const auto clean = files_of(build_toys(folder.path() / "clean", source));
  CacheSource wider = source;
  wider.schema.has_token_weights = true;
  const RowEncoderMaker rows = interrupted_rows(toy_dir(folder.path(), source));
  EXPECT_EQ(signal_of([&] { build_toys(folder.path(), wider, rows); }), SIGINT);
  clear_interrupt();
  EXPECT_EQ(files_of(build_toys(folder.path(), source)), clean);
}

TEST(CacheChange, WaitingForAnotherProcessIsReportedOnceAndEndsAtAnInterrupt) {
  const ScratchFolder folder;
  CacheSource source = toy_source(folder.write("toys.jsonl", toy_file(5)));
  std::vector<std::string> notices;
  source.notice = [&](const std::string& text) { notices.push_back(text); };
  const FileLock other(folder.path() / cache_key(source.key_document) / "lock", false);
  std::thread interrupt([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    request_interrupt(SIGINT);
  });
  EXPECT_EQ(signal_of([&] { build_toys(folder.path(), source); }), SIGINT);
  interrupt.join();
  clear_interrupt();
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_TRUE(notices[0].starts_with("waiting for another process that caches toys")) << notices[0];
}

TEST(CacheChange, AnInterruptEndsTheHashingOfDataFiles) {
  const ScratchFolder folder;
  const std::string path = folder.write("toys.jsonl", std::string(3 << 20, '\n'));
  std::vector<uint64_t> seen;
  find_data_files(path, [&](const std::string&, uint64_t done, uint64_t) { seen.push_back(done); });
  EXPECT_EQ(seen, (std::vector<uint64_t>{1 << 20, 2 << 20, 3 << 20}));
  request_interrupt(SIGINT);
  EXPECT_EQ(signal_of([&] { find_data_files(path); }), SIGINT);
  clear_interrupt();
}

}  // namespace
}  // namespace xrun::cache_change_test
