// Kills, failing disks and interruptions: after any of them, a later build
// ends with the bytes of an undisturbed one.

#include "core/data/cache/cache_build.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <thread>

#include "core/base/file_fault.h"
#include "core/base/interrupt.h"
#include "core/data/cache/cache_manifest.h"
#include "core/data/cache/cache_reader.h"
#include "core/data/cache/row_cache.h"
#include "tests/core/data/cache/killed_process.h"
#include "tests/core/data/rows/compressed_bytes.h"
#include "tests/core/data/rows/toy_rows.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace xrun::cache_build_test {
namespace {

namespace fs = std::filesystem;

TEST(CacheBuild, GivesEveryRowBack) {
  const ScratchFolder folder;
  const CacheSource source = toy_source(folder.write("toys.jsonl", toy_file(500)));
  const CacheReader reader(build_toys(folder.path(), source), "text");
  const SourceLedger& ledger = reader.manifest().ledger;
  EXPECT_EQ(ledger.rows, 500);
  EXPECT_EQ(ledger.kept, reader.rows());
  EXPECT_EQ(ledger.dropped.at("bad"), 71);
  EXPECT_EQ(ledger.lines, 545);
  EXPECT_GT(reader.manifest().shards.size(), 3u);
  const auto cache = RowCache::open(reader.dir(), RowKind::kText);
  TokenStream tokens;
  int64_t row = 0;
  for (int64_t i = 0; i < 500; ++i) {
    if (i % 7 == 3) continue;
    const std::string want =
        hash_hex(std::to_string(i)).substr(0, 10 + static_cast<size_t>(i % 23));
    cache->read(row++, 0, tokens);
    ASSERT_EQ(std::string(tokens.ids.begin(), tokens.ids.end()), want);
    for (size_t c = 0; c < want.size(); ++c) ASSERT_EQ(tokens.trained[c], want[c] == 'a');
  }
}

TEST(CacheBuild, ASecondCallReadsNothing) {
  const ScratchFolder folder;
  const std::string path = folder.write("toys.jsonl", toy_file(50));
  const CacheSource source = toy_source(path);
  build_toys(folder.path(), source);
  fs::remove(path);
  EXPECT_EQ(error_of([&] { build_toys(folder.path(), source); }), "");
}

TEST(CacheBuild, SlowBytesFollowFromTheRowsAlone) {
  const ScratchFolder folder;
  CacheSource source = toy_source(folder.write("toys.jsonl", toy_file(2000)));
  std::map<std::string, std::string> first;
  for (int workers : {1, 2, 3, 8}) {
    for (size_t block : {1, 300, 5000, 1 << 20}) {
      source.workers = workers;
      source.block_bytes = block;
      const auto files =
          files_of(build_toys(folder.path() / fmt::format("{}_{}", workers, block), source));
      if (first.empty()) first = files;
      ASSERT_EQ(files, first) << workers << " " << block;
    }
  }
}

TEST(CacheBuild, TheFirstErrorInSourceOrderEndsTheBuild) {
  const ScratchFolder folder;
  const std::string stop = "{\"text\":\"stop\"}\n";
  CacheSource source =
      toy_source(folder.write("toys.jsonl", toy_file(30) + stop + toy_file(50) + stop + stop));
  for (int round = 0; round < 20; ++round) {
    source.workers = 1 + round % 4;
    source.block_bytes = 200;
    const std::string message = error_of([&] { build_toys(folder.path(), source); });
    ASSERT_NE(message.find("toys.jsonl:34: stop"), std::string::npos) << message;
    ASSERT_FALSE(fs::exists(toy_dir(folder.path(), source)));
  }
}

TEST(CacheBuild, RowsOfEveryFormatAndCompressionAreTheSame) {
  const ScratchFolder folder;
  std::string lines, array = "[", text;
  for (int i = 0; i < 300; ++i) {
    const std::string word = hash_hex(std::to_string(i));
    lines += "{\"text\":\"" + word + "\"}\n";
    array += "{\"text\":\"" + word + (i < 299 ? "\"},\n" : "\"}]");
    text += word + "\n\n";
  }
  const std::pair<const char*, std::string> kinds[] = {
      {".jsonl", lines}, {".json", array}, {".txt", text}};
  for (const auto& [kind, bytes] : kinds) {
    for (const auto& [packed, content] : {std::pair<std::string, std::string>{"", bytes},
                                          {".gz", gzip(bytes)},
                                          {".zst", zstd(bytes)}}) {
      const CacheSource source = toy_source(folder.write("toys" + (kind + packed), content));
      const auto cache = RowCache::open(build_toys(folder.path(), source), RowKind::kText);
      ASSERT_EQ(cache->size(), 300) << kind << packed;
      TokenStream tokens;
      for (int64_t i = 0; i < 300; ++i) {
        cache->read(i, 0, tokens);
        ASSERT_EQ(std::string(tokens.ids.begin(), tokens.ids.end()), hash_hex(std::to_string(i)));
      }
      // An interrupted build continues, whatever the form of its source.
      const fs::path root = folder.path() / "again";
      set_file_fault("fsync", 10);
      EXPECT_NE(error_of([&] { build_toys(root, source); }).find("free some space"),
                std::string::npos);
      set_file_fault("", 0);
      EXPECT_EQ(files_of(build_toys(root, source)), files_of(cache->dir())) << kind << packed;
    }
  }
}

TEST(CacheBuild, MalformedJsonIsABadRowWithItsLine) {
  const ScratchFolder folder;
  const std::string path = folder.write("toys.jsonl", "{oops\n" + toy_file(30));
  const CacheReader reader(build_toys(folder.path(), toy_source(path)), "text");
  const SourceLedger& ledger = reader.manifest().ledger;
  EXPECT_EQ(ledger.dropped.at("malformed_json"), 1);
  EXPECT_NE(ledger.bad[0].detail.find("toys.jsonl:1:2: is not valid JSON"), std::string::npos)
      << ledger.bad[0].detail;
}

TEST(CacheBuild, AnInterruptedBuildIsNotACacheAndContinuesSlow) {
  const ScratchFolder folder;
  CacheSource source = toy_source(folder.write("toys.jsonl", toy_file(500)));
  const auto clean = files_of(build_toys(folder.path() / "clean", source));
  // The n-th write of any kind fails, for every n until a build needs fewer than n.
  for (const std::string operation : {"write", "fsync", "rename"}) {
    source.workers = operation == "write" ? 1 : 3;
    bool failed = true;
    for (int64_t n = 1; failed; ++n) {
      const fs::path root = folder.path() / (operation + std::to_string(n));
      set_file_fault(operation, n);
      const std::string message = error_of([&] { build_toys(root, source); });
      set_file_fault("", 0);
      failed = !message.empty();
      const fs::path dir = root / cache_key(source.key_document);
      if (failed) {
        EXPECT_NE(message.find("free some space"), std::string::npos) << message;
        if (!fs::exists(dir / kManifestName)) {
          EXPECT_NE(error_of([&] { CacheReader(dir, "text"); }).find("is not a finished cache"),
                    std::string::npos);
        }
      }
      ASSERT_EQ(files_of(build_toys(root, source)), clean) << operation << " " << n;
      ASSERT_LT(n, 500);
    }
  }
}

TEST(CacheBuild, ADamagedPartialBuildStartsAgain) {
  const ScratchFolder folder;
  const CacheSource source = toy_source(folder.write("toys.jsonl", toy_file(500)));
  const auto clean = files_of(build_toys(folder.path() / "clean", source));
  CacheSource told = source;
  std::vector<std::string> notices;
  told.notice = [&](const std::string& text) { notices.push_back(text); };
  for (const std::string victim : {kPartialName, "segment_000001.bin"}) {
    const fs::path root = folder.path() / victim;
    set_file_fault("fsync", 8);  // in the third shard
    EXPECT_NE(error_of([&] { build_toys(root, source); }).find("free some space"),
              std::string::npos);
    set_file_fault("", 0);
    const fs::path dir = root / cache_key(source.key_document);
    std::string bytes = read_file(dir / victim);
    bytes[bytes.size() / 2] ^= 1;
    write_file_atomic(dir / victim, bytes);
    notices.clear();
    EXPECT_EQ(files_of(build_toys(root, told)), clean) << victim;
    ASSERT_EQ(notices.size(), 1u);
    EXPECT_TRUE(notices[0].starts_with(
        "the interrupted build of toys cannot continue, every row is read again: " +
        (dir / victim).string() + ": "))
        << notices[0];
  }
}

TEST(CacheBuild, AnInterruptKeepsCommittedShards) {
  const ScratchFolder folder;
  const CacheSource source = toy_source(folder.write("toys.jsonl", toy_file(500)));
  const auto clean = files_of(build_toys(folder.path() / "clean", source));
  const fs::path dir = toy_dir(folder.path(), source);
  const RowEncoderMaker rows = interrupted_rows(dir);
  EXPECT_EQ(signal_of([&] { build_toys(folder.path(), source, rows); }), SIGINT);
  clear_interrupt();
  EXPECT_GT(read_manifest(dir, kPartialName).shards.size(), 0u);
  EXPECT_EQ(files_of(build_toys(folder.path(), source)), clean);
}

TEST(CacheBuild, ASlowBuildReportsItsProgress) {
  const ScratchFolder folder;
  CacheSource source = toy_source(folder.write("toys.jsonl", toy_file(100)));
  source.workers = 1;
  source.block_bytes = 1;
  std::vector<double> fractions;
  source.progress = [&](int64_t, double fraction) { fractions.push_back(fraction); };
  const RowEncoderMaker rows = watched_rows([](int64_t line) {
    if (line == 50) std::this_thread::sleep_for(std::chrono::milliseconds(220));
  });
  build_toys(folder.path(), source, rows);
  ASSERT_GE(fractions.size(), 1u);
  EXPECT_GT(fractions[0], 0.4);
  EXPECT_LE(fractions[0], 1.0);
}

TEST(CacheBuild, TheEndOfAFileIsNotCountedTwiceInItsProgress) {
  const ScratchFolder folder;
  CacheSource source = toy_source(folder.write("toys.jsonl", toy_file(100)));
  source.workers = 1;
  source.block_bytes = 1 << 20;
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(220)); };
  std::vector<double> fractions;
  // All rows are one block; the pauses make it and the end of the file due for a report.
  source.progress = [&](int64_t, double fraction) {
    fractions.push_back(fraction);
    pause();
  };
  const RowEncoderMaker rows = watched_rows([&](int64_t line) {
    if (line == 50) pause();
  });
  build_toys(folder.path(), source, rows);
  EXPECT_EQ(fractions, (std::vector<double>{1.0, 1.0}));
}

// Leaves a line in a file for each build that reads a row, and takes its time over the first one.
RowEncoderMaker counted_rows(const fs::path& count) {
  return watched_rows([count](int64_t line) {
    if (line != 1) return;
    FileWriter writer(count, FileWriter::Mode::kAppend);
    writer.write("built\n");
    writer.close();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  });
}

// Run by the tests below in a child process.
TEST(CacheBuild, DISABLED_ChildProcess) {
  const char* root = std::getenv("XRUN_TEST_CACHE");
  ASSERT_NE(root, nullptr);
  const CacheSource source = toy_source(std::string(root) + "/toys.jsonl");
  if (std::getenv("XRUN_TEST_COUNT") != nullptr) {
    build_toys(root, source, counted_rows(fs::path(root) / "count"));
  } else {
    build_toys(root, source);
  }
}

pid_t start_child(const fs::path& root, bool count = false) {
  const pid_t pid = fork_process();
  if (pid != 0) return pid;
  ::setenv("XRUN_TEST_CACHE", root.c_str(), 1);
  if (count) ::setenv("XRUN_TEST_COUNT", "1", 1);
  if (::freopen("/dev/null", "w", stdout) == nullptr) ::_exit(126);
  ::execl("/proc/self/exe", "test_data", "--gtest_also_run_disabled_tests",
          "--gtest_filter=CacheBuild.DISABLED_ChildProcess", nullptr);
  ::_exit(127);
}

TEST(CacheBuild, TwoProcessesBuildOnce) {
  const ScratchFolder folder;
  folder.write("toys.jsonl", toy_file(1500));
  const CacheSource source = toy_source((folder.path() / "toys.jsonl").string());
  const pid_t children[] = {start_child(folder.path(), true), start_child(folder.path(), true)};
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  CacheReader(folder.path() / cache_key(source.key_document), "text").verify();
  EXPECT_EQ(read_file(folder.path() / "count"), "built\n");
}

}  // namespace
}  // namespace xrun::cache_build_test
