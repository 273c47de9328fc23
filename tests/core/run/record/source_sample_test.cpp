// A sample reports a missing cache, and garbage in the record gives no source.

#include "core/run/record/source_sample.h"

#include <gtest/gtest.h>

#include "tests/scratch_folder.h"

namespace xrun::source_sample_test {
namespace {

std::vector<SourceSample> samples_of(const char* inputs, const std::filesystem::path& store) {
  Json record = Json::object();
  record.set("inputs", parse_json(inputs, "run.json"));
  return sample_sources(record, Json::object(), store, store);
}

TEST(SourceSample, ReportsAMissingCache) {
  const ScratchFolder folder;
  const auto samples = samples_of(
      R"({"data":{"1":{"keys":[{"name":"a.jsonl"},{"name":"b.jsonl"}]}}})", folder.path());
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[1].name, "b.jsonl");
  EXPECT_EQ(samples[1].gap, "its token cache is no longer in " + folder.path().string());
  EXPECT_TRUE(samples[1].rows.empty());
}

TEST(SourceSample, GarbageGivesNoSource) {
  const ScratchFolder folder;
  EXPECT_TRUE(samples_of(R"({"data":{"1":{"keys":7},"2":[],"3":{}}})", folder.path()).empty());
  EXPECT_TRUE(samples_of("7", folder.path()).empty());
  EXPECT_EQ(samples_of(R"({"data":{"1":{"keys":[7]}}})", folder.path()).size(), 1u);
}

}  // namespace
}  // namespace xrun::source_sample_test
