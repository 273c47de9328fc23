// A reader finds every flipped byte of a cache and refuses files that do not fit its manifest.

#include "core/data/cache/cache_reader.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "core/data/cache/cache_manifest.h"
#include "tests/core/data/rows/toy_rows.h"
#include "tests/scratch_folder.h"

namespace xrun::cache_reader_test {
namespace {

namespace fs = std::filesystem;

void flip(const fs::path& path, size_t at) {
  std::string bytes = read_file(path);
  bytes[at] ^= 0x10;
  write_file_atomic(path, bytes);
}

class ToyCache : public testing::Test {
 protected:
  ToyCache() {
    source_ = toy_source(folder_.write("toys.jsonl", toy_file(400)));
    dir_ = build_toys(folder_.path(), source_);
  }
  std::string open_and_verify() const {
    return error_of([&] { CacheReader(dir_, "text").verify(); });
  }

  ScratchFolder folder_;
  CacheSource source_;
  fs::path dir_;
};

TEST_F(ToyCache, IsWhole) { EXPECT_EQ(open_and_verify(), ""); }

// Flips bytes of a file one after the other; each is found, and the message names the file.
void flip_bytes(const fs::path& dir, const std::string& name, size_t first, size_t step) {
  const std::string bytes = read_file(dir / name);
  ASSERT_GT(bytes.size(), 0u);
  for (size_t at = first; at < bytes.size(); at += step) {
    std::string flipped = bytes;
    flipped[at] ^= 0x10;
    std::ofstream(dir / name, std::ios::binary) << flipped;
    const std::string message = error_of([&] { CacheReader(dir, "text").verify(); });
    ASSERT_NE(message.find(name), std::string::npos) << at << " " << message;
    ASSERT_NE(message.find("is damaged"), std::string::npos) << at << " " << message;
  }
  std::ofstream(dir / name, std::ios::binary) << bytes;
}

TEST_F(ToyCache, EveryFlippedByteOfASmallCacheIsFoundSlow) {
  const CacheSource source = toy_source(folder_.write("small.jsonl", toy_file(40)), 300);
  const fs::path dir = build_toys(folder_.path(), source);
  const auto files = files_of(dir);
  EXPECT_GE(files.size(), 4u);  // shards, the manifest, the list of bad rows
  for (const auto& [name, bytes] : files) flip_bytes(dir, name, 0, 1);
  EXPECT_EQ(files_of(dir), files);
}

TEST_F(ToyCache, SlowFlippedBytesOfALargerCacheAreFound) {
  const CacheSource source = toy_source(folder_.write("large.jsonl", toy_file(200'000)), 4 << 20);
  const fs::path dir = build_toys(folder_.path(), source);
  for (const auto& [name, bytes] : files_of(dir)) {
    flip_bytes(dir, name, bytes.size() / 1003, bytes.size() / 40 + 7);
  }
}

TEST_F(ToyCache, ADamagedPageIsNamedWithItsRows) {
  const CacheSource source = toy_source(folder_.write("large.jsonl", toy_file(20'000)), 8 << 20);
  const fs::path dir = build_toys(folder_.path(), source);
  const CacheReader whole(dir, "text");
  const size_t line = whole.column("line", ColumnType::kI64);
  const ShardEntry& entry = whole.manifest().shards[0];
  const ShardFile file(dir / entry.file, whole.manifest().columns,
                       {entry.bytes, entry.head_bytes, entry.head_xxh3});
  const uint64_t row = 9'000;  // its line, eight bytes wide, is flipped
  flip(dir / entry.file, file.header().columns[line].begin + 8 * row);
  const CacheReader reader(dir, "text");
  const std::string message = error_of([&] { reader.value<int64_t>(reader.find(row), line); });
  const uint64_t page =
      (file.header().columns[line].begin + 8 * row - entry.head_bytes) / kPageBytes;
  EXPECT_NE(message.find(fmt::format("page {} (bytes", page)), std::string::npos) << message;
  uint64_t first = 0, last = 0;
  ASSERT_EQ(std::sscanf(message.c_str() + message.find("rows "), "rows %lu to %lu", &first, &last),
            2);
  EXPECT_TRUE(first <= row && row <= last && last - first < 9'000) << message;
  EXPECT_EQ(error_of([&] { reader.value<int64_t>(reader.find(0), line); }), "");
}

TEST_F(ToyCache, ADamagedPageIsFoundAtTheFirstReadAndOthersAreRead) {
  const fs::path file = dir_ / "segment_000001.bin";
  flip(file, read_file(file).size() - 70);
  const CacheReader reader(dir_, "text");
  const size_t line = reader.column("line", ColumnType::kI64);
  EXPECT_EQ(reader.value<int64_t>(reader.find(0), line), 1);
  const ShardEntry& entry = reader.manifest().shards[1];
  const std::string message =
      error_of([&] { reader.value<int64_t>(reader.find(entry.first_row), line); });
  EXPECT_NE(
      message.find(fmt::format("rows {} to {}", entry.first_row, entry.first_row + entry.rows - 1)),
      std::string::npos)
      << message;
  EXPECT_NE(message.find("page 0"), std::string::npos);
}

TEST_F(ToyCache, ATruncatedOrMissingShardIsNamedOnOpen) {
  const fs::path file = dir_ / "segment_000000.bin";
  const std::string bytes = read_file(file);
  write_file_atomic(file, std::string_view(bytes).substr(0, bytes.size() / 2));
  EXPECT_NE(open_and_verify().find("segment_000000.bin: has"), std::string::npos);
  fs::remove(file);
  EXPECT_EQ(open_and_verify(), file.string() +
                                   ": is missing, and the manifest names it; remove "
                                   "the folder (xrun cache rm with its name), and the next run "
                                   "builds it again");
}

TEST_F(ToyCache, RefusesAManifestThatDoesNotHashToItsName) {
  const fs::path other = dir_.parent_path() / std::string(32, '0');
  fs::rename(dir_, other);
  EXPECT_NE(error_of([&] { CacheReader(other, "text"); }).find("but its folder is named 0000"),
            std::string::npos);
}

TEST_F(ToyCache, RefusesAKeyDocumentOfAnotherKey) {
  CacheManifest manifest = read_manifest(dir_, kManifestName);
  manifest.key_document.set("segment_bytes", 1);
  write_file_atomic(dir_ / kManifestName, encode_manifest(manifest));
  EXPECT_NE(error_of([&] { CacheReader(dir_, "text"); }).find("its key document hashes to"),
            std::string::npos);
}

TEST_F(ToyCache, RefusesANewerFormat) {
  const std::string text = read_file(dir_ / kManifestName);
  std::string body = text.substr(0, text.rfind(",\"xxh3\""));
  body.replace(body.find(fmt::format("\"version\":{}", kCacheVersion)), 11, "\"version\":9");
  write_file_atomic(dir_ / kManifestName, body + ",\"xxh3\":\"" + hash_hex(body) + "\"}\n");
  EXPECT_NE(
      error_of([&] { CacheReader(dir_, "text"); }).find("is of format 9, written by a newer xrun"),
      std::string::npos);
}

TEST_F(ToyCache, RefusesAShardOfAnotherIndex) {
  const std::string second = read_file(dir_ / "segment_000001.bin");
  CacheManifest manifest = read_manifest(dir_, kManifestName);
  ShardEntry& first = manifest.shards[0];
  const int64_t rows = manifest.shards[1].rows;
  first = manifest.shards[1];
  first.file = shard_name(0);
  first.first_row = 0;
  manifest.shards[1].first_row = rows;
  for (size_t s = 2; s < manifest.shards.size(); ++s) {
    manifest.shards[s].first_row = manifest.shards[s - 1].first_row + manifest.shards[s - 1].rows;
  }
  write_file_atomic(dir_ / "segment_000000.bin", second);
  write_file_atomic(dir_ / kManifestName, encode_manifest(manifest));
  EXPECT_NE(open_and_verify().find("segment_000000.bin: is shard 1 of cache"), std::string::npos);
}

TEST_F(ToyCache, RefusesAnotherRowType) {
  EXPECT_NE(error_of([&] { CacheReader(dir_, "preference"); }).find("holds text rows"),
            std::string::npos);
}

TEST_F(ToyCache, RefusesARowOutOfRange) {
  const CacheReader reader(dir_, "text");
  for (const int64_t row : {reader.rows(), int64_t{-1}}) {
    EXPECT_EQ(error_of([&] { reader.find(row); }),
              fmt::format("{}: row {} is out of range, the cache has {}", dir_.string(), row,
                          reader.rows()));
  }
}

// A header with a correct checksum and wrong offsets: no length in it is trusted.
TEST(ShardHeader, ColumnsOutsideTheFileAreRefused) {
  ShardData data({{"offsets", ColumnType::kI64, -1}, {"text", ColumnType::kU8, 0}});
  data.push_elements(1, "hello");
  data.push_offset(0, 1);
  data.end_row();
  std::string whole = data.head(0, 0, std::string(32, 'a'));
  const size_t head = whole.size();
  data.body([&](std::string_view piece) { whole.append(piece); });
  const auto read = [&](const std::string& bytes) {
    return error_of([&] { read_shard_header(bytes, data.columns(), "s"); });
  };
  ASSERT_EQ(read(whole), "");
  int refused = 0;
  for (size_t at = 0; at < head; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
      refused += !read(bytes).empty();  // never a crash, and never a read outside
    }
  }
  EXPECT_GT(refused, 900);
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string message = read(whole.substr(0, size));
    EXPECT_TRUE(message.starts_with("s: is truncated: ") || message.starts_with("s: its header ("))
        << size << ": " << message;
  }
}

}  // namespace
}  // namespace xrun::cache_reader_test
