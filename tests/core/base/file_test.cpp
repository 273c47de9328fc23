// A durable file holds its old or its new bytes after any failure, and only one process holds its
// lock.

#include "core/base/file.h"

#include <gtest/gtest.h>

#include <optional>

#include "core/base/error.h"
#include "core/base/file_fault.h"
#include "core/base/file_lock.h"
#include "core/base/hash.h"
#include "core/base/mapped_file.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace xrun::file_test {
namespace {

namespace fs = std::filesystem;

class File : public testing::Test {
 protected:
  void TearDown() override { set_file_fault("", 0); }
  const ScratchFolder scratch_;
  const fs::path dir_ = scratch_.path();
};

TEST_F(File, AtomicWriteReplacesTheWholeFile) {
  write_file_atomic(dir_ / "a", "old");
  write_file_atomic(dir_ / "a", "new bytes");
  EXPECT_EQ(read_file(dir_ / "a"), "new bytes");
}

TEST_F(File, AnyFailureOfAnAtomicWriteLeavesTheOldBytesAndNoTemporary) {
  write_file_atomic(dir_ / "a", "old");
  for (const char* operation : {"write", "fsync", "rename"}) {
    set_file_fault(operation, 1);
    EXPECT_NE(error_of([&] {
                write_file_atomic(dir_ / "a", "new");
              }).find("No space left on device; free some space"),
              std::string::npos)
        << operation;
    set_file_fault("", 0);
    EXPECT_EQ(read_file(dir_ / "a"), "old") << operation;
    EXPECT_EQ(std::distance(fs::directory_iterator(dir_), {}), 1) << operation;
  }
}

TEST_F(File, TheErrorOfAFullDiskNamesTheFix) {
  set_file_fault("write", 1);
  EXPECT_TRUE(throws<Error>("No space left on device; free some space",
                            [&] { write_file_atomic(dir_ / "a", "x"); }));
}

TEST_F(File, ASetSizeCutsOrAddsZeros) {
  const fs::path file = scratch_.write("sized", "abc");
  set_file_size(file, 2);
  EXPECT_EQ(text_of(file), "ab");
  set_file_size(file, 4);
  EXPECT_EQ(text_of(file), std::string("ab\0\0", 4));
  EXPECT_NE(message_of<FileError>([&] { set_file_size(dir_ / "none", 1); }).find("be resized"),
            std::string::npos);
}

TEST_F(File, ATreeIsRemovedWithItsFilesAndAMissingOneIsFine) {
  make_dirs(dir_ / "a" / "b");
  write_file_atomic(dir_ / "a" / "b" / "c", "x");
  remove_tree(dir_ / "a");
  EXPECT_FALSE(path_exists(dir_ / "a"));
  remove_tree(dir_ / "a");
}

TEST_F(File, ARefusalOfTheSystemNamesThePathAndTheReason) {
  const std::string name(300, 'n');  // longer than a file system allows
  EXPECT_EQ(message_of<FileError>([&] { remove_tree(dir_ / name); }),
            (dir_ / name).string() + ": cannot be removed: File name too long");
  EXPECT_EQ(message_of<FileError>([&] { size_of_file(dir_ / name); }),
            (dir_ / name).string() + ": cannot be examined: File name too long");
  EXPECT_EQ(message_of<FileError>([&] { size_of_file(dir_ / "none"); }),
            (dir_ / "none").string() + ": cannot be examined: No such file or directory");
  EXPECT_FALSE(is_folder(dir_ / name));
  EXPECT_TRUE(is_folder(dir_));
}

TEST_F(File, WriterKeepsTheOrderOfSmallAndLargePieces) {
  std::string expected;
  FileWriter writer(dir_ / "big");
  for (int i = 0; i < 5; ++i) {
    const std::string piece(static_cast<size_t>(i) * 700'000 + 1, static_cast<char>('a' + i));
    writer.write(piece);
    expected += piece;
  }
  writer.close();
  EXPECT_EQ(writer.size(), expected.size());
  EXPECT_EQ(read_file(dir_ / "big"), expected);
  EXPECT_EQ(hash_file(dir_ / "big"), hash_hex(expected));
}

TEST_F(File, AFlushAfterAFailureRepeatsNoBytes) {
  const fs::path path = dir_ / "log";
  const std::string text = std::string(FileWriter::kWriteBytes, 'a') + "b\n";
  FileWriter writer(path);
  writer.write(text);
  set_file_fault("write", 2);  // after the first kWriteBytes
  EXPECT_TRUE(throws<FileError>("No space left on device", [&] { writer.flush(); }));
  set_file_fault("", 0);
  writer.write("c\n");
  writer.close();
  EXPECT_EQ(read_file(path), text + "c\n");
}

TEST_F(File, AnAtomicWriteThatFailsNamesTheFileItself) {
  const std::string path = (dir_ / "none" / "a").string();
  EXPECT_EQ(message_of<FileError>([&] { write_file_atomic(path, "1"); }),
            path + ": cannot be opened for writing: No such file or directory");
}

TEST_F(File, AMissingRelativePathNamesTheCurrentFolder) {
  const std::string wanted =
      "no/such: cannot be opened: No such file or directory; the current "
      "folder is " +
      std::filesystem::current_path().string();
  EXPECT_EQ(message_of<FileError>([] { read_file("no/such"); }), wanted);
  const std::string path = (dir_ / "no").string();
  EXPECT_EQ(message_of<FileError>([&] { read_file(path); }),
            path + ": cannot be opened: No such file or directory");
}

TEST_F(File, ReadRefusesMoreThanItsLimit) {
  write_file_atomic(dir_ / "a", "12345");
  EXPECT_EQ(error_of([&] { read_file(dir_ / "a", 4); }),
            (dir_ / "a").string() + ": is larger than the limit of 4 bytes");
  EXPECT_EQ(read_file(dir_ / "a", 5), "12345");
}

TEST_F(File, MapsAnEmptyFileAndRefusesAFolder) {
  write_file_atomic(dir_ / "empty", "");
  EXPECT_EQ(MappedFile(dir_ / "empty").bytes(), "");
  EXPECT_EQ(error_of([&] { MappedFile{dir_}; }), dir_.string() + ": is not a regular file");
}

TEST_F(File, OnlyOneLockIsHeld) {
  const FileLock first(dir_ / "lock", false);
  const FileLock second(dir_ / "lock", false);
  EXPECT_TRUE(first.held());
  EXPECT_FALSE(second.held());
}

TEST_F(File, ALockOnARemovedFileDoesNotCount) {
  int waits = 0;
  std::optional<FileLock> first(std::in_place, dir_ / "sub" / "lock", false);
  const FileLock second(dir_ / "sub" / "lock", true, [&] {
    if (++waits < 3) return;
    std::filesystem::remove_all(dir_ / "sub");  // as a holder that cleans up does
    first.reset();
  });
  EXPECT_TRUE(second.held());
  EXPECT_FALSE(FileLock(dir_ / "sub" / "lock", false).held());
}

TEST_F(File, ALockCannotBeTakenOnAFolder) {
  EXPECT_EQ(error_of([&] { FileLock(dir_, false); }),
            dir_.string() + ": cannot be opened for a lock: Is a directory");
}

TEST(Hash, FieldsDoNotRunTogether) {
  Hasher a;
  Hasher b;
  a.field("ab", "c");
  b.field("a", "bc");
  EXPECT_NE(a.hex(), b.hex());
}

}  // namespace
}  // namespace xrun::file_test
