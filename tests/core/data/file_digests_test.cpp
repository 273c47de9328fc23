#include "core/data/file_digests.h"

#include <gtest/gtest.h>

#include "core/base/hash.h"
#include "tests/core/data/scratch_folder.h"

namespace xrun {
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

TEST_F(FileDigestsTest, AFileOfThisMomentIsNotRemembered) {
  const FileDigests digests(dir_);
  EXPECT_TRUE(digest(digests).second);
  EXPECT_TRUE(digest(digests).second);
}

TEST_F(FileDigestsTest, AChangeOfTheSameSizeIsSeenEvenIfTheTimeIsSetBack) {
  const FileDigests digests(dir_, nanoseconds(0));
  digest(digests);
  const auto time = fs::last_write_time(path_);
  FileWriter writer(path_);  // the same inode
  writer.write("sows");
  writer.close();
  fs::last_write_time(path_, time);
  EXPECT_EQ(digest(digests), Found(hash_hex("sows"), true));
  folder_.write("rows.jsonl", "rows");  // another inode
  EXPECT_EQ(digest(digests), Found(hash_hex("rows"), true));
}

TEST_F(FileDigestsTest, ADamagedRecordIsNotBelieved) {
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

TEST_F(FileDigestsTest, WhatIsForgottenIsReadAgain) {
  const FileDigests digests(dir_, nanoseconds(0));
  digest(digests);
  digests.forget(path_);
  EXPECT_TRUE(digest(digests).second);
}

TEST_F(FileDigestsTest, AFolderThatCannotBeWrittenCostsTimeAlone) {
  const FileDigests digests(folder_.path() / "rows.jsonl" / "digests", nanoseconds(0));
  EXPECT_EQ(digest(digests), Found(hash_hex("rows"), true));
  EXPECT_EQ(digest(FileDigests()), Found(hash_hex("rows"), true));
}

}  // namespace
}  // namespace xrun
