// A remembered digest spares the second read and never outlives a change of the file.

#include "core/data/cache/file_digests.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>
#include <vector>

#include "core/base/hash.h"
#include "tests/scratch_folder.h"

namespace xrun::file_digests_test {
namespace {

namespace fs = std::filesystem;
using std::chrono::nanoseconds;

class FileDigestsTest : public testing::Test {
 protected:
  // The digest, and whether the file was read for it.
  std::pair<std::string, bool> digest(const FileDigests& digests) const {
    bool read = false;
    std::string hex = digests.digest(path_, [&](uint64_t) { read = true; });
    return {hex, read};
  }
  using Found = std::pair<std::string, bool>;

  int64_t changed_ns() const {
    struct stat info {};
    EXPECT_EQ(::stat(path_.c_str(), &info), 0);
    return int64_t{info.st_ctim.tv_sec} * 1'000'000'000 + info.st_ctim.tv_nsec;
  }

  ScratchFolder folder_;
  std::string path_ = folder_.write("rows.jsonl", "rows");
  fs::path dir_ = folder_.path() / "digests";
};

TEST_F(FileDigestsTest, AFileIsReadOnce) {
  const FileDigests digests(dir_, nanoseconds(0));
  EXPECT_EQ(digest(digests), Found(hash_hex("rows"), true));
  EXPECT_EQ(digest(digests), Found(hash_hex("rows"), false));
  EXPECT_EQ(digest(FileDigests(dir_)), Found(hash_hex("rows"), false));
}

TEST_F(FileDigestsTest, ARecentlyChangedFileIsNotRemembered) {
  const FileDigests digests(dir_);
  EXPECT_TRUE(digest(digests).second);
  EXPECT_TRUE(digest(digests).second);
}

TEST_F(FileDigestsTest, AChangeOfTheSameSizeIsSeenEvenIfTheTimeIsSetBack) {
  const FileDigests digests(dir_, nanoseconds(0));
  digest(digests);
  const auto time = fs::last_write_time(path_);
  const int64_t before = changed_ns();
  do {                         // until the file system's clock has gone on
    FileWriter writer(path_);  // the same inode
    writer.write("sows");
    writer.close();
    fs::last_write_time(path_, time);
  } while (changed_ns() == before);
  EXPECT_EQ(digest(digests), Found(hash_hex("sows"), true));
  folder_.write("rows.jsonl", "rows");  // another inode
  EXPECT_EQ(digest(digests), Found(hash_hex("rows"), true));
}

TEST_F(FileDigestsTest, ADamagedRecordIsIgnored) {
  const FileDigests digests(dir_, nanoseconds(0));
  digest(digests);
  const fs::path record = fs::directory_iterator(dir_)->path();
  std::string bytes = read_file(record);
  bytes[bytes.find(hash_hex("rows"))] ^= 1;
  write_file_atomic(record, bytes);
  EXPECT_EQ(digest(digests), Found(hash_hex("rows"), true));
  write_file_atomic(record, "junk");
  EXPECT_EQ(digest(digests), Found(hash_hex("rows"), true));
}

TEST_F(FileDigestsTest, ThreadsGetTheSameDigestAndLeaveNoOtherFile) {
  const FileDigests digests(dir_, nanoseconds(0));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        if (i % 3 == 0) digests.forget(path_);
        wrong += digest(digests).first != hash_hex("rows");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  digest(digests);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_), {}), 1);
}

TEST_F(FileDigestsTest, AForgottenFileIsReadAgain) {
  const FileDigests digests(dir_, nanoseconds(0));
  digest(digests);
  digests.forget(path_);
  EXPECT_TRUE(digest(digests).second);
}

TEST_F(FileDigestsTest, AFolderThatCannotBeWrittenCostsOnlyTime) {
  const FileDigests digests(folder_.path() / "rows.jsonl" / "digests", nanoseconds(0));
  EXPECT_EQ(digest(digests), Found(hash_hex("rows"), true));
  EXPECT_EQ(digest(FileDigests()), Found(hash_hex("rows"), true));
}

}  // namespace
}  // namespace xrun::file_digests_test
