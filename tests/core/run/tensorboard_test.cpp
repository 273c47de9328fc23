// Event files equal those of TensorBoard's own writer byte for byte, and torn records are cut.

#include "core/run/tensorboard.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/scratch_folder.h"
#include "tests/tree.h"

namespace xrun::tensorboard_test {
namespace {

using Scalars = std::vector<std::pair<std::string, double>>;

std::vector<std::filesystem::path> files_in(const std::filesystem::path& dir) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

TEST(TensorBoard, ChecksumsMatchRfc3720) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c("6789", crc32c("12345")), 0xE3069283u);
}

TEST(TensorBoard, MatchesTensorBoardsWriterByteForByte) {
  const Scalars scalars = {
      {"train/loss", 0.6931471805599453}, {"valid/a b/accuracy", 0.5}, {"ü", -1e30}};
  const std::string bytes = tensorboard_record(scalar_event(1700000000.25, 0, scalars)) +
                            tensorboard_record(scalar_event(1700000001.5, 1, scalars)) +
                            tensorboard_record(scalar_event(1700000002.75, 300, scalars));
  EXPECT_EQ(bytes, text_of(source_path("tests/golden/tensorboard_events.bin")));
}

TEST(TensorBoard, ARestartCutsEarlierFilesAndSortsAfterThem) {
  const ScratchFolder folder;
  const Scalars scalars = {{"train/loss", 1.0}};
  for (const int64_t first : {0, 2, 2}) {
    TensorBoardWriter writer(folder.path(), first);
    for (int64_t step = first; step < 5; ++step) writer.write(step, scalars);
  }
  const auto files = files_in(folder.path());
  ASSERT_EQ(files.size(), 3u);
  const std::string record = tensorboard_record(scalar_event(1, 1, scalars));
  const std::string first_record = tensorboard_record(scalar_event(1, 0, scalars));
  const size_t version = 40;  // the record of the file version
  EXPECT_EQ(text_of(files[0]).size(), version + first_record.size() + record.size());
  EXPECT_EQ(text_of(files[1]).size(), version);
  EXPECT_GT(text_of(files[2]).size(), version + 3 * record.size());
}

TEST(TensorBoard, CutsTornAndDamagedRecords) {
  const ScratchFolder folder;
  const Scalars scalars = {{"train/loss", 1.0}};
  {
    TensorBoardWriter writer(folder.path(), 0);
    writer.write(0, scalars);
    writer.write(1, scalars);
  }
  const auto file = files_in(folder.path()).at(0);
  const std::string whole = text_of(file);
  put_text(file, whole.substr(0, whole.size() - 1));
  cut_events(file, 100);
  const std::string cut = text_of(file);
  EXPECT_EQ(cut.size(), whole.size() - tensorboard_record(scalar_event(1, 1, scalars)).size());
  EXPECT_EQ(cut, whole.substr(0, cut.size()));
  std::string damaged = whole;
  damaged[cut.size() - 20] ^= 1;
  put_text(file, damaged);
  cut_events(file, 100);
  EXPECT_EQ(text_of(file), whole.substr(0, 40));
}

TEST(TensorBoard, OmitsNonFiniteValues) {
  const ScratchFolder folder;
  TensorBoardWriter writer(folder.path(), 0);
  const Scalars bad = {{"a", std::numeric_limits<double>::quiet_NaN()},
                       {"b", std::numeric_limits<double>::infinity()}};
  const auto file = files_in(folder.path()).at(0);
  const size_t before = text_of(file).size();
  writer.write(0, bad);
  EXPECT_EQ(text_of(file).size(), before);
}

}  // namespace
}  // namespace xrun::tensorboard_test
