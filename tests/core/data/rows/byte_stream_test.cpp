// A stream gives the content of plain and compressed files and names damage by its byte.

#include "core/data/rows/byte_stream.h"

#include <gtest/gtest.h>

#include "core/base/file_fault.h"
#include "tests/core/data/rows/compressed_bytes.h"
#include "tests/scratch_folder.h"

namespace xrun::byte_stream_test {
namespace {

class ByteStreamTest : public testing::Test {
 protected:
  std::string read(const std::string& name, const std::string& bytes, size_t piece = 1 << 16) {
    const auto stream = open_byte_stream(folder_.write(name, bytes), name);
    std::string content;
    std::string buffer(piece, '\0');
    while (const size_t n = stream->read(buffer.data(), piece)) content.append(buffer, 0, n);
    EXPECT_EQ(stream->file().bytes(), bytes.size());
    EXPECT_EQ(stream->file().digest(), hash_hex(bytes));
    return content;
  }
  std::string error(const std::string& name, const std::string& bytes) {
    return error_of([&] { read(name, bytes); });
  }
  static std::string text(size_t lines) {
    std::string text;
    for (size_t i = 0; i < lines; ++i) text += hash_hex(std::to_string(i)) + "\n";
    return text;
  }
  ScratchFolder folder_;
};

TEST_F(ByteStreamTest, GivesTheContentOfEveryKindAndTheDigestOfTheFile) {
  for (size_t piece : {1, 100, 1 << 16}) {
    EXPECT_EQ(read("a.jsonl", text(100), piece), text(100));
    EXPECT_EQ(read("a.jsonl.gz", gzip(text(100)), piece), text(100));
    EXPECT_EQ(read("a.jsonl.zst", zstd(text(100)), piece), text(100));
  }
  EXPECT_EQ(read("a.txt.gz", gzip(text(30'000))), text(30'000));
  EXPECT_EQ(read("a.txt.zst", zstd(text(30'000))), text(30'000));
  EXPECT_EQ(read("a.json.gz", gzip("")), "");
  EXPECT_EQ(read("a.json.zst", zstd("")), "");
}

TEST_F(ByteStreamTest, MembersAndFramesFollowOneAnother) {
  EXPECT_EQ(read("a.gz", gzip("one ") + gzip("") + gzip("two")), "one two");
  EXPECT_EQ(read("a.gz", gzip("one") + std::string(600'000, '\0')), "one");
  const std::string skipped = std::string("\x50\x2A\x4D\x18\x03\0\0\0", 8) + "abc";
  EXPECT_EQ(read("a.zst", skipped + zstd("one ") + skipped + zstd("two") + skipped), "one two");
}

TEST_F(ByteStreamTest, AFileCutAnywhereIsNamed) {
  const std::string whole = text(50);
  for (const auto& [name, bytes] :
       {std::pair<std::string, std::string>{"a.gz", gzip(whole)}, {"a.zst", zstd(whole)}}) {
    for (size_t size = 0; size < bytes.size(); size += 7) {
      const std::string message = error(name, bytes.substr(0, size));
      ASSERT_TRUE(message.starts_with(name + ": is truncated: its " + std::to_string(size)))
          << size << " " << message;
    }
  }
}

TEST_F(ByteStreamTest, DamageIsNamedWithItsByte) {
  std::string bytes = gzip(text(5000));
  bytes[bytes.size() / 2] ^= 0x55;
  EXPECT_TRUE(error("a.gz", bytes).starts_with("a.gz: is corrupt near byte "))
      << error("a.gz", bytes);
  EXPECT_TRUE(error("a.gz", gzip("x") + "more").starts_with("a.gz: is corrupt near byte "));
  EXPECT_TRUE(error("a.zst", zstd("x") + "more").starts_with("a.zst: is corrupt near byte "));
}

TEST_F(ByteStreamTest, AFileThatIsNotCompressedAsItsNameSaysIsAnErrorWithTheFix) {
  for (const std::string name : {"a.jsonl.gz", "a.jsonl.zst"}) {
    EXPECT_EQ(error(name, "{\"text\": \"plain\"}\n"),
              name +
                  ": is not compressed, although its name says so; if it holds rows rename it to "
                  "a.jsonl, else copy it again");
  }
  EXPECT_EQ(error("a.jsonl.gz", zstd("x")),
            "a.jsonl.gz: is compressed with zstd; rename it to a.jsonl.zst");
  EXPECT_EQ(error("a.jsonl.zst", gzip("x")),
            "a.jsonl.zst: is compressed with gzip; rename it to a.jsonl.gz");
}

TEST_F(ByteStreamTest, AFailedReadIsNotReportedAsDamage) {
  set_file_fault("read", 2);
  for (const auto& [name, bytes] : {std::pair<std::string, std::string>{"a.jsonl", text(9000)},
                                    {"a.jsonl.gz", gzip(text(9000))}}) {
    set_file_fault("read", 2);
    try {
      read(name, bytes);
      ADD_FAILURE() << name;
    } catch (const FileError& error) {
      EXPECT_EQ(error.code(), EIO);
      EXPECT_EQ(error.what(), name + ": cannot be read: Input/output error");
    }
  }
  set_file_fault("", 0);
}

}  // namespace
}  // namespace xrun::byte_stream_test
