// Locked inputs, found by name and by digest.
#include "core/share/input_files.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/scoped_variable.h"
#include "tests/scratch_folder.h"

namespace xrun::input_files_test {
namespace {

class InputFiles : public testing::Test {
 protected:
  InputFiles() : cache_("XRUN_CACHE", (folder_ / "cache").string()) {
    make_dirs(folder_ / "here");
    make_dirs(folder_ / "there");
    make_dirs(folder_ / "bundle");
    models_.folder = [](const std::string& name) -> std::filesystem::path {
      if (std::filesystem::is_directory(name)) return name;
      throw UsageError("fetch it: models get " + name);
    };
  }
  LockedInput locked(InputKind kind, const std::string& name) {
    return measure_input({kind, name}, models_).locked;
  }
  FoundInput find(const LockedInput& input) {
    return find_input(input, folder_ / "bundle", models_);
  }

  ScratchFolder folder_;
  ScopedVariable cache_;
  ModelFolders models_;
};

}  // namespace

TEST_F(InputFiles, TheNameIsEnoughIfItHasTheBytes) {
  const std::string file = folder_.write("here/rows.jsonl", "{}\n");
  const FoundInput found = find(locked(InputKind::kData, file));
  EXPECT_EQ(found.path, file);
  EXPECT_EQ(found.where, "by its name");
}

TEST_F(InputFiles, OtherBytesUnderTheNameAreADifference) {
  const std::string file = folder_.write("here/rows.jsonl", "{}\n");
  const LockedInput input = locked(InputKind::kData, file);
  folder_.write("here/rows.jsonl", "{ }\n");
  const FoundInput longer = find(input);
  ASSERT_EQ(longer.differences.size(), 1u);
  EXPECT_EQ(longer.differences[0].path, "data " + file + " bytes");
  folder_.write("here/rows.jsonl", "[]\n");
  ASSERT_EQ(find(input).differences.size(), 1u);
  EXPECT_EQ(find(input).differences[0].path, "data " + file + " sha256");
}

// A model in the caches under another name; a bundle has its small files.
TEST_F(InputFiles, WeightsAreFoundByDigestInTheCachesOfModels) {
  const std::string name = (folder_ / "here").string();
  folder_.write("here/config.json", "{}");
  folder_.write("here/model.safetensors", "weights");
  LockedInput input = locked(InputKind::kModel, name);
  ASSERT_EQ(input.files.size(), 2u);
  EXPECT_TRUE(is_weights(input.files[1]));
  input.files[0].member = "model/here/config.json";
  make_dirs(folder_ / "bundle/model/here");
  folder_.write("bundle/model/here/config.json", "{}");
  std::filesystem::rename(folder_ / "here/model.safetensors", folder_ / "there/model.safetensors");
  EXPECT_NE(find(input).missing, "") << "it is in no cache yet";
  models_.cached = {folder_ / "there"};
  const FoundInput found = find(input);
  EXPECT_EQ(found.path, (folder_ / "bundle/model/here").string());
  EXPECT_EQ(text_of(folder_ / "bundle/model/here/model.safetensors"), "weights");
}

TEST_F(InputFiles, AMissingModelNamesTheCommandAndMissingDataTheirDigest) {
  folder_.write("here/config.json", "{}");
  folder_.write("here/model.safetensors", "weights");
  LockedInput model = locked(InputKind::kModel, (folder_ / "here").string());
  model.name = "gone";
  EXPECT_NE(find(model).missing.find("fetch it: models get gone"), std::string::npos);
  const std::string file = folder_.write("here/rows.jsonl", "{}\n");
  const LockedInput data = locked(InputKind::kData, file);
  std::filesystem::remove(file);
  EXPECT_NE(find(data).missing.find(data.files[0].sha256), std::string::npos);
}

TEST_F(InputFiles, AGlobIsLockedFileByFile) {
  folder_.write("here/a.jsonl", "{}\n");
  folder_.write("here/b.jsonl", "{ }\n");
  const std::string glob = (folder_ / "here/*.jsonl").string();
  const LockedInput input = locked(InputKind::kData, glob);
  ASSERT_EQ(input.files.size(), 2u);
  EXPECT_EQ(input.files[1].name, "b.jsonl");
  EXPECT_EQ(find(input).path, glob);
  folder_.write("here/c.jsonl", "{}\n");
  ASSERT_EQ(find(input).differences.size(), 1u) << "one file more";
}

TEST_F(InputFiles, NamesSplitAtTheirFirstWildcard) {
  using Pair = std::pair<std::string, std::string>;
  EXPECT_EQ(split_glob("a/b.jsonl"), Pair("a/", "b.jsonl"));
  EXPECT_EQ(split_glob("a/b*/c.jsonl"), Pair("a/", "b*/c.jsonl"));
  EXPECT_EQ(split_glob("*.jsonl"), Pair("", "*.jsonl"));
}

}  // namespace xrun::input_files_test
