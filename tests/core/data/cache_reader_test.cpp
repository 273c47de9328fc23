#include "core/data/cache_reader.h"

#include <gtest/gtest.h>

#include "core/data/cache_manifest.h"
#include "tests/core/data/scratch_folder.h"
#include "tests/core/data/toy_rows.h"

namespace xrun {
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

TEST_F(ToyCache, AFlippedByteAnywhereInTheManifestIsFoundOnOpen) {
  const std::string bytes = read_file(dir_ / kManifestName);
  for (size_t at = 0; at < bytes.size(); at += 11) {
    flip(dir_ / kManifestName, at);
    const std::string message = error_of([&] { CacheReader(dir_, "text"); });
    ASSERT_NE(message.find("manifest.json: is damaged"), std::string::npos) << at;
    write_file_atomic(dir_ / kManifestName, bytes);
  }
}

TEST_F(ToyCache, AFlippedByteAnywhereInASegmentIsFoundAndNamed) {
  const fs::path file = dir_ / "segment_000001.bin";
  const std::string bytes = read_file(file);
  for (size_t at = 0; at < bytes.size(); at += 61) {
    flip(file, at);
    const std::string message = open_and_verify();
    ASSERT_NE(message.find("segment_000001.bin"), std::string::npos) << at;
    ASSERT_NE(message.find("is damaged"), std::string::npos) << at;
    write_file_atomic(file, bytes);
  }
}

TEST_F(ToyCache, ADamagedPageIsFoundAtFirstTouchAndOthersAreRead) {
  const fs::path file = dir_ / "segment_000001.bin";
  flip(file, read_file(file).size() - 70);
  const CacheReader reader(dir_, "text");
  const size_t line = reader.column("line", ColumnType::kI64);
  EXPECT_EQ(reader.value<int64_t>(reader.place(0), line), 1);
  const SegmentEntry& entry = reader.manifest().segments[1];
  const std::string message =
      error_of([&] { reader.value<int64_t>(reader.place(entry.first_row), line); });
  EXPECT_NE(
      message.find(fmt::format("rows {} to {}", entry.first_row, entry.first_row + entry.rows - 1)),
      std::string::npos)
      << message;
  EXPECT_NE(message.find("page 0"), std::string::npos);
}

TEST_F(ToyCache, ATruncatedOrMissingSegmentIsNamedOnOpen) {
  const fs::path file = dir_ / "segment_000000.bin";
  const std::string bytes = read_file(file);
  write_file_atomic(file, std::string_view(bytes).substr(0, bytes.size() / 2));
  EXPECT_NE(open_and_verify().find("segment_000000.bin: has"), std::string::npos);
  fs::remove(file);
  EXPECT_NE(open_and_verify().find("segment_000000.bin"), std::string::npos);
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
  body.replace(body.find("\"version\":1"), 11, "\"version\":9");
  write_file_atomic(dir_ / kManifestName, body + ",\"xxh3\":\"" + hash_hex(body) + "\"}\n");
  EXPECT_NE(
      error_of([&] { CacheReader(dir_, "text"); }).find("is of format 9, written by a newer xrun"),
      std::string::npos);
}

TEST_F(ToyCache, RefusesASegmentOfAnotherPlace) {
  const std::string second = read_file(dir_ / "segment_000001.bin");
  CacheManifest manifest = read_manifest(dir_, kManifestName);
  SegmentEntry& first = manifest.segments[0];
  const int64_t rows = manifest.segments[1].rows;
  first = manifest.segments[1];
  first.file = segment_name(0);
  first.first_row = 0;
  manifest.segments[1].first_row = rows;
  for (size_t s = 2; s < manifest.segments.size(); ++s) {
    manifest.segments[s].first_row =
        manifest.segments[s - 1].first_row + manifest.segments[s - 1].rows;
  }
  write_file_atomic(dir_ / "segment_000000.bin", second);
  write_file_atomic(dir_ / kManifestName, encode_manifest(manifest));
  EXPECT_NE(open_and_verify().find("segment_000000.bin: is segment 1 of cache"), std::string::npos);
}

TEST_F(ToyCache, RefusesAnotherRowType) {
  EXPECT_NE(error_of([&] { CacheReader(dir_, "preference"); }).find("holds text rows"),
            std::string::npos);
}

TEST_F(ToyCache, RefusesARowOutOfRange) {
  const CacheReader reader(dir_, "text");
  EXPECT_NE(error_of([&] { reader.place(reader.rows()); }), "");
  EXPECT_NE(error_of([&] { reader.place(-1); }), "");
}

// A header whose checksum is right but whose places are not: no length in it is believed.
TEST(SegmentHeader, PlacesOutsideTheFileAreRefused) {
  SegmentData data({{"offsets", ColumnType::kI64, -1}, {"text", ColumnType::kU8, 0}});
  data.push_text(1, "hello");
  data.push_offset(0, 1);
  data.end_row();
  const std::string key(32, 'a');
  const std::string whole = data.encode(0, 0, key);
  const auto read = [&](const std::string& bytes) {
    return error_of([&] { read_segment_header(bytes, bytes.size(), data.columns(), "s"); });
  };
  ASSERT_EQ(read(whole), "");
  int refused = 0;
  for (size_t at = 0; at < segment_header_bytes(2); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
      refused += !read(bytes).empty();  // never a crash, and never a place outside
    }
  }
  EXPECT_GT(refused, 900);
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_NE(read(whole.substr(0, size)), "");
}

}  // namespace
}  // namespace xrun
