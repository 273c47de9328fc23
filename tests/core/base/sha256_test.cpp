// SHA-256 against the examples of FIPS 180-4 and its test suite, by both ways of computing it.

#include "core/base/sha256.h"

#include <gtest/gtest.h>

#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace xrun::sha256_test {
namespace {

struct Vector {
  std::string message;
  const char* digest;
};

const Vector kVectors[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnop"
     "q"
     "rsmnopqrstnopqrstu",
     "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    {std::string(1'000'000, 'a'),
     "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
};

}  // namespace

TEST(Sha256, GivesThePublishedDigests) {
  for (const Vector& vector : kVectors) {
    EXPECT_EQ(sha256_hex(vector.message), vector.digest);
    EXPECT_EQ(Sha256(/*portable=*/true).bytes(vector.message).hex(), vector.digest);
  }
}

// Every size around the ends of a block, in pieces of every size.
TEST(Sha256, PiecesGiveTheDigestOfTheWhole) {
  const std::string text(200, 'x');
  for (size_t size = 0; size <= text.size(); ++size) {
    const std::string_view message = std::string_view(text).substr(0, size);
    const std::string whole = Sha256(true).bytes(message).hex();
    EXPECT_EQ(sha256_hex(message), whole);
    const size_t piece = 1 + size % 70;
    Sha256 hash;
    for (size_t at = 0; at < size; at += piece) hash.bytes(message.substr(at, piece));
    EXPECT_EQ(hash.hex(), whole) << size;
    EXPECT_EQ(hash.hex(), whole) << "asked twice";
  }
}

TEST(Sha256, AFileHashesLikeItsBytes) {
  const ScratchFolder folder;
  const std::string bytes(3'000'000, 'q');
  EXPECT_EQ(sha256_file(folder.write("file", bytes)), sha256_hex(bytes));
  EXPECT_EQ(error_of([&] { sha256_file(folder / "missing"); }),
            (folder / "missing").string() + ": cannot be read: No such file or directory");
}

TEST(Sha256, DigestsAre64LowerCaseDigits) {
  EXPECT_TRUE(is_sha256(sha256_hex("")));
  EXPECT_FALSE(is_sha256(std::string(63, 'a')));
  EXPECT_FALSE(is_sha256(std::string(64, 'A')));
  EXPECT_FALSE(is_sha256(std::string(64, 'g')));
}

}  // namespace xrun::sha256_test
