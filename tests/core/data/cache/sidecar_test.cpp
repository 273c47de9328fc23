#include "core/data/cache/sidecar.h"

#include <gtest/gtest.h>

#include "tests/core/data/rows/scratch_folder.h"
#include "tests/core/data/rows/toy_rows.h"

namespace xrun::sidecar_test {
namespace {

namespace fs = std::filesystem;

class SidecarTest : public testing::Test {
 protected:
  SidecarTest() {
    cache_ = build_toys(folder_.path(), toy_source(folder_.write("toys.jsonl", toy_file(90))));
    rows_ = CacheReader(cache_).rows();
    key_ = {cache_.filename().string(), "reference_logprobs", Json::object()};
    key_.made_by.set("model", "0123");
  }
  void write_flat(int64_t rows) const {
    SidecarWriter writer(cache_, key_, ColumnType::kF32, false, 100);
    for (int64_t row = 0; row < rows; ++row) writer.add(static_cast<float>(row) / 4);
    writer.finish(rows_);
  }
  fs::path dir() const { return cache_ / kSidecarFolder / cache_key(key_.document()); }

  ScratchFolder folder_;
  fs::path cache_;
  int64_t rows_ = 0;
  SidecarKey key_;
};

TEST_F(SidecarTest, FlatValuesComeBackByRow) {
  EXPECT_EQ(Sidecar::open(cache_, key_, rows_), nullptr);
  write_flat(rows_);
  const auto sidecar = Sidecar::open(cache_, key_, rows_);
  ASSERT_NE(sidecar, nullptr);
  for (int64_t row = 0; row < rows_; ++row) {
    ASSERT_EQ(sidecar->value<float>(row), static_cast<float>(row) / 4);
  }
  sidecar->verify();
  CacheReader(cache_).verify();  // the cache itself is as it was
}

TEST_F(SidecarTest, VerifyChecksEverySidecarOfACache) {
  const auto verify = [&] { return error_of([&] { verify_sidecars(cache_, rows_); }); };
  EXPECT_EQ(verify(), "");
  write_flat(rows_);
  EXPECT_EQ(verify(), "");
  EXPECT_NE(error_of([&] { verify_sidecars(cache_, rows_ + 1); }).find("remove the folder"),
            std::string::npos);
  for (const char* victim : {kManifestName, "segment_000001.bin"}) {
    const std::string bytes = read_file(dir() / victim);
    std::string damaged = bytes;
    damaged[bytes.size() - 9] ^= 1;
    write_file_atomic(dir() / victim, damaged);
    EXPECT_NE(verify().find("damaged"), std::string::npos) << victim;
    write_file_atomic(dir() / victim, bytes);
  }
  fs::create_directory(cache_ / kSidecarFolder / (cache_key(key_.document()) + ".tmp"));
  EXPECT_EQ(verify(), "");
}

TEST_F(SidecarTest, JaggedValuesComeBackByRow) {
  {
    SidecarWriter writer(cache_, key_, ColumnType::kU16, true, 60);
    for (int64_t row = 0; row < rows_; ++row) {
      const std::vector<uint16_t> values(static_cast<size_t>(row % 5), static_cast<uint16_t>(row));
      writer.add_row<uint16_t>(values);
    }
    writer.finish(rows_);
  }
  const auto sidecar = Sidecar::open(cache_, key_, rows_);
  for (int64_t row = 0; row < rows_; ++row) {
    const CacheReader::Elements got = sidecar->elements(row);
    ASSERT_EQ(got.count, static_cast<uint64_t>(row % 5));
    for (uint64_t i = 0; i < got.count; ++i) {
      uint16_t value = 0;
      std::memcpy(&value, got.data + 2 * i, 2);
      ASSERT_EQ(value, row);
    }
  }
}

TEST_F(SidecarTest, AnotherKeyIsAnotherSidecar) {
  write_flat(rows_);
  key_.made_by.set("model", "4567");
  EXPECT_EQ(Sidecar::open(cache_, key_, rows_), nullptr);
  key_.made_by.set("model", "0123");
  key_.name = "alignment";
  EXPECT_EQ(Sidecar::open(cache_, key_, rows_), nullptr);
}

TEST_F(SidecarTest, OneOfAnotherCacheOrKeyIsRefused) {
  write_flat(rows_);
  EXPECT_NE(error_of([&] { Sidecar::open(cache_, key_, rows_ + 1); }).find("its cache has"),
            std::string::npos);
  const fs::path mine = dir();
  key_.made_by.set("model", "4567");
  fs::rename(mine, dir());
  EXPECT_NE(error_of([&] { Sidecar::open(cache_, key_, rows_); }).find("but its folder is named"),
            std::string::npos);
  const fs::path other = folder_.path() / std::string(32, 'e');
  make_dirs(other / kSidecarFolder);
  fs::rename(dir(), other / kSidecarFolder / mine.filename());
  key_.made_by.set("model", "0123");
  EXPECT_NE(error_of([&] { Sidecar::open(other, key_, rows_); }).find("wanted"), std::string::npos);
}

TEST_F(SidecarTest, OneThatIsNotFinishedIsNotThere) {
  EXPECT_NE(error_of([&] { write_flat(rows_ - 1); }).find("rows were written, wanted"),
            std::string::npos);
  EXPECT_EQ(Sidecar::open(cache_, key_, rows_), nullptr);
  for (const char* operation : {"write", "fsync", "rename"}) {
    for (int64_t n = 1; n < 200; ++n) {
      set_file_fault(operation, n);
      const std::string message = error_of([&] { write_flat(rows_); });
      set_file_fault("", 0);
      const auto sidecar = Sidecar::open(cache_, key_, rows_);
      if (sidecar) sidecar->verify();
      if (message.empty()) break;
      ASSERT_NE(message.find("free some space"), std::string::npos) << message;
      fs::remove_all(dir());
    }
    fs::remove_all(dir());
  }
}

TEST_F(SidecarTest, AFlippedByteIsFound) {
  write_flat(rows_);
  for (const auto& [name, bytes] : files_of(dir())) {
    for (size_t at = 0; at < bytes.size(); at += 5) {
      std::string flipped = bytes;
      flipped[at] ^= 4;
      write_file_atomic(dir() / name, flipped);
      ASSERT_NE(error_of([&] { Sidecar::open(cache_, key_, rows_)->verify(); }).find(name),
                std::string::npos)
          << name << " " << at;
    }
    write_file_atomic(dir() / name, bytes);
  }
}

}  // namespace
}  // namespace xrun::sidecar_test
