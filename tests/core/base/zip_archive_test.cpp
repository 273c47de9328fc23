// Archives written and read; torch_file_test.cpp reads those of PyTorch.

#include "core/base/zip_archive.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/base/error.h"
#include "tests/error_of.h"
#include "tools/fuzz/archive_of.h"

namespace xrun::zip_archive_test {
namespace {

const ZipReadText kText{.where = "a.zip"};

}  // namespace

TEST(ZipArchive, ReadsWhatItWrites) {
  const std::string bytes =
      archive_of({{"a", "first"}, {"b/c", ""}, {"d", std::string(70000, 'x')}});
  const std::vector<ZipMember> members = read_stored_zip(bytes, kText);
  ASSERT_EQ(members.size(), 3u);
  EXPECT_EQ(members[0].name, "a");
  EXPECT_EQ(members[0].data, "first");
  EXPECT_EQ(members[1].data, "");
  EXPECT_EQ(members[2].data.size(), 70000u);
  for (const ZipMember& member : members) EXPECT_NO_THROW(check_zip_member(member, kText));
  EXPECT_TRUE(is_plain_zip(bytes, members));
}

TEST(ZipArchive, TheChecksumIsCrc32) {
  EXPECT_EQ(zip_crc32("123456789"), 0xCBF43926u);
  EXPECT_EQ(zip_crc32("6789", zip_crc32("12345")), 0xCBF43926u);
}

// Sizes and offsets beyond 4 GiB have fields of 64 bits.
TEST(ZipArchive, LargeMembersHaveZip64Fields) {
  const ZipEntry large{"large", uint64_t{5} << 30, 1}, small{"small", 3, 2};
  const std::string header = zip_header(large);
  uint32_t size;
  std::memcpy(&size, header.data() + 22, sizeof size);
  EXPECT_EQ(size, 0xFFFFFFFFu);
  EXPECT_EQ(header.size(), 30 + 5 + 4 + 16u);
  const ZipEntry both[] = {large, small};
  const std::string directory = zip_directory(both);
  // The second entry's offset alone is long: 4 + 8 bytes; zip64 records and the end follow.
  EXPECT_EQ(directory.size(), (46 + 5 + 4 + 16) + (46 + 5 + 4 + 8) + 56 + 20 + 22u);
}

TEST(ZipArchive, AnythingBesideTheMembersIsNotPlain) {
  const std::string bytes = archive_of({{"a", "first"}, {"b", "second"}});
  const auto plain = [](const std::string& archive) {
    return is_plain_zip(archive, read_stored_zip(archive, kText));
  };
  ASSERT_TRUE(plain(bytes));
  // A comment behind the end record.
  std::string commented = bytes + "x";
  commented[bytes.size() - 2] = 1;
  EXPECT_FALSE(plain(commented));
  // The mark of a symbolic link in the directory.
  std::string link = bytes;
  const size_t entry = bytes.find("PK\1\2");
  link[entry + 41] = static_cast<char>(0xA1);
  EXPECT_FALSE(plain(link));
  // Another name in the header than in the directory.
  std::string renamed = bytes;
  renamed[30] = 'z';
  EXPECT_FALSE(plain(renamed));
}

TEST(ZipArchive, EveryCutIsAnError) {
  const std::string bytes = archive_of({{"a", "first"}, {"b", "second"}});
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(error_of([&] { read_stored_zip(std::string_view(bytes).substr(0, size), kText); }),
              "a.zip: is not a zip archive")
        << size;
  }
}

}  // namespace xrun::zip_archive_test
