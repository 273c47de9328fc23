// A store lists finished, interrupted and damaged caches, and removes nothing that is in use or
// foreign.

#include "core/data/cache/cache_folder.h"

#include <gtest/gtest.h>

#include "core/base/file_fault.h"
#include "core/base/file_lock.h"
#include "core/data/cache/cache_reader.h"
#include "core/data/cache/sidecar.h"
#include "tests/core/data/rows/toy_rows.h"
#include "tests/scratch_folder.h"

namespace xrun::cache_folder_test {
namespace {

namespace fs = std::filesystem;

class CacheFolderTest : public testing::Test {
 protected:
  fs::path build(const std::string& name, int64_t rows) {
    return build_toys(store_, toy_source(folder_.write(name, toy_file(rows))));
  }
  // A build that stops after its first shards.
  fs::path interrupt(const std::string& name, int64_t rows) {
    const CacheSource source = toy_source(folder_.write(name, toy_file(rows)));
    set_file_fault("fsync", 9);
    EXPECT_NE(error_of([&] { build_toys(store_, source); }).find("free some space"),
              std::string::npos);
    set_file_fault("", 0);
    return toy_dir(store_, source);
  }

  ScratchFolder folder_;
  fs::path store_ = folder_.path() / "store";
};

TEST_F(CacheFolderTest, AMissingStoreIsEmpty) { EXPECT_TRUE(list_caches(store_).empty()); }

TEST_F(CacheFolderTest, FinishedInterruptedAndDamagedCachesAreListed) {
  const fs::path whole = build("a.jsonl", 100);
  const fs::path part = interrupt("b.jsonl", 900);
  const fs::path damaged = build("c.jsonl", 50);
  std::string bytes = read_file(damaged / kManifestName);
  bytes[100] ^= 1;
  write_file_atomic(damaged / kManifestName, bytes);
  make_dirs(store_ / "notes");  // no cache
  const std::vector<CacheFolder> caches = list_caches(store_);
  ASSERT_EQ(caches.size(), 3u);
  for (const CacheFolder& cache : caches) {
    EXPECT_GT(cache.bytes, 0u);
    if (cache.dir == whole) {
      EXPECT_EQ(cache.state, CacheState::kFinished);
      EXPECT_EQ(cache.rows, CacheReader(whole).rows());
      EXPECT_EQ(cache.row_type, "text");
      EXPECT_GT(cache.tokens, cache.rows);
      ASSERT_EQ(cache.files.size(), 1u);
      EXPECT_TRUE(cache.files[0].ends_with("a.jsonl"));
    } else if (cache.dir == part) {
      EXPECT_EQ(cache.state, CacheState::kUnfinished);
      EXPECT_GT(cache.rows, 0);
    } else {
      EXPECT_EQ(cache.state, CacheState::kUnreadable);
      EXPECT_NE(cache.problem.find("is damaged"), std::string::npos);
    }
  }
}

TEST_F(CacheFolderTest, ACacheBeingBuiltIsListedAsSuchAndNotRemoved) {
  const fs::path dir = interrupt("a.jsonl", 900);
  {
    const FileLock builder(dir / kLockName, false);
    EXPECT_EQ(list_caches(store_)[0].state, CacheState::kBuilding);
    EXPECT_NE(error_of([&] { remove_cache(dir); }).find("another process is building it"),
              std::string::npos);
    EXPECT_TRUE(fs::exists(dir / kPartialName));
  }
  remove_cache(dir);
  EXPECT_FALSE(fs::exists(dir));
}

TEST_F(CacheFolderTest, AnOpenCacheIsReadableAfterItsRemoval) {
  const fs::path dir = build("a.jsonl", 100);
  const CacheReader reader(dir);
  remove_cache(dir);
  EXPECT_FALSE(fs::exists(dir));
  const size_t line = reader.column("line", ColumnType::kI64);
  EXPECT_EQ(reader.value<int64_t>(reader.find(0), line), 1);
}

TEST_F(CacheFolderTest, TheNextRemovalFinishesAKilledOne) {
  const fs::path dir = build("a.jsonl", 10);
  const fs::path aside = dir.string() + ".removed";
  fs::copy(dir, aside);
  remove_cache(dir);
  EXPECT_FALSE(fs::exists(dir));
  EXPECT_FALSE(fs::exists(aside));
}

TEST_F(CacheFolderTest, AFolderThatIsNotACacheIsNotRemoved) {
  const fs::path dir = build("a.jsonl", 10);
  folder_.write("store/" + dir.filename().string() + "/thesis.txt", "mine");
  EXPECT_NE(error_of([&] {
              remove_cache(dir);
            }).find("contains thesis.txt, which is not part of a cache"),
            std::string::npos);
  EXPECT_NE(error_of([&] { remove_cache(folder_.path()); }).find("is not a cache folder"),
            std::string::npos);
  EXPECT_NE(
      error_of([&] { remove_cache(store_ / std::string(32, 'a')); }).find("is not a cache folder"),
      std::string::npos);
  CacheReader(dir).verify();
}

}  // namespace
}  // namespace xrun::cache_folder_test
