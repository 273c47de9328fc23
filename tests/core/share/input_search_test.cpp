// Locked inputs, found by name and by digest.

#include "core/share/input_search.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/file_access.h"
#include "tests/error_of.h"
#include "tests/scoped_variable.h"
#include "tests/scratch_folder.h"

namespace xrun::input_search_test {
namespace {

class FindInput : public testing::Test {
 protected:
  FindInput() : cache_("XRUN_CACHE", (folder_ / "cache").string()) {
    make_dirs(folder_ / "here");
    make_dirs(folder_ / "there");
    make_dirs(folder_ / "bundle");
    make_dirs(folder_ / "sent/recipes");
    models_.folder = [](const std::string& name) -> std::filesystem::path {
      if (std::filesystem::is_directory(name)) return name;
      throw UsageError("fetch it: models get " + name);
    };
  }
  LockedInput locked(InputKind kind, const std::string& name) {
    return measure_input({kind, name}, models_).locked;
  }
  ~FindInput() override { limit_file_access(nullptr); }
  FoundInput find(const LockedInput& input) {
    return find_input(input, {.folder = folder_ / "bundle",
                              .bundle = folder_ / "sent/dpo.xrb",
                              .named = named_,
                              .models = models_});
  }
  // The lock of "recipes/rows.jsonl", a path that does not exist here, with the bytes "{}\n".
  LockedInput locked_rows() {
    LockedInput input = locked(InputKind::kData, folder_.write("here/rows.jsonl", "{}\n"));
    std::filesystem::remove(folder_ / "here/rows.jsonl");
    input.name = "recipes/rows.jsonl";
    return input;
  }

  ScratchFolder folder_;
  ScopedVariable cache_;
  ModelFolders models_;
  std::vector<std::filesystem::path> named_;
};

}  // namespace

TEST_F(FindInput, TheNameIsEnoughIfItHasTheBytes) {
  const std::string file = folder_.write("here/rows.jsonl", "{}\n");
  const FoundInput found = find(locked(InputKind::kData, file));
  EXPECT_EQ(found.path, file);
  EXPECT_EQ(found.where, "by its name");
}

TEST_F(FindInput, OtherBytesUnderTheNameAreADifference) {
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

TEST_F(FindInput, ALinkThatCannotBeMadeIsAnError) {
  const LockedInput input = locked_rows();
  named_ = {folder_ / "there"};
  folder_.write("there/rows.jsonl", "{}\n");
  // A folder that is not empty stands where the link belongs.
  make_dirs(input_folder(input, folder_ / "bundle") / input.files[0].name / "full");
  EXPECT_TRUE(throws<Error>("cannot be linked to ", [&] { find(input); }));
}

// A model in the caches under another name; a bundle has its small files.
TEST_F(FindInput, WeightsAreFoundByDigestInTheCachesOfModels) {
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

TEST_F(FindInput, AMissingModelNamesTheCommandAndMissingDataTheirDigest) {
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

TEST_F(FindInput, DataBesideTheBundleIsFoundUnderItsNameAndAlone) {
  const LockedInput input = locked_rows();
  for (const char* file : {"sent/recipes/rows.jsonl", "sent/rows.jsonl"}) {
    SCOPED_TRACE(file);
    folder_.write(file, "{}\n");
    const FoundInput found = find(input);
    EXPECT_EQ(found.where, "found in " + (folder_ / "sent").string());
    EXPECT_EQ(text_of(found.path), "{}\n");
    std::filesystem::remove(folder_ / file);
  }
}

TEST_F(FindInput, ANamedFolderIsSearchedAndANamedFileIsFoundByItsBytes) {
  const LockedInput input = locked_rows();
  named_ = {folder_ / "there"};
  folder_.write("there/recipes", "not a folder");
  folder_.write("there/rows.jsonl", "{}\n");
  EXPECT_EQ(find(input).where, "found in " + named_[0].string());
  std::filesystem::rename(folder_ / "there/rows.jsonl", folder_ / "there/other.jsonl");
  EXPECT_NE(find(input).missing, "");
  named_ = {folder_ / "there/other.jsonl"};
  EXPECT_EQ(text_of(find(input).path), "{}\n");
  EXPECT_EQ(std::filesystem::path(find(input).path).filename(), "rows.jsonl");
}

// A folder with half of a glob's files is not used.
TEST_F(FindInput, AFolderMustHaveAllFiles) {
  folder_.write("here/a.jsonl", "{}\n");
  folder_.write("here/b.jsonl", "{ }\n");
  LockedInput input = locked(InputKind::kData, (folder_ / "here/*.jsonl").string());
  input.name = "rows/*.jsonl";
  folder_.write("sent/a.jsonl", "{}\n");
  std::filesystem::remove_all(folder_ / "here");
  EXPECT_NE(find(input).missing.find(": b.jsonl: no such file; it has the other 1 of 2 files"),
            std::string::npos)
      << find(input).missing;
  EXPECT_EQ(find(input).file, "b.jsonl");
  folder_.write("sent/b.jsonl", "{ }\n");
  EXPECT_TRUE(find(input).path.ends_with("/*.jsonl")) << find(input).path;
}

TEST_F(FindInput, AMissingInputListsWhereItWasLookedForAndTheFix) {
  const LockedInput input = locked_rows();
  const std::string sent = (folder_ / "sent").string();
  folder_.write("sent/rows.jsonl", "[]\n");
  const std::string begins = "data \"recipes/rows.jsonl\" (3 bytes, SHA-256 " +
                             input.files[0].sha256 +
                             ") is not in the bundle and was not found:\n"
                             "  recipes/rows.jsonl in the current folder: no such file\n  " +
                             sent + "/rows.jsonl: has other bytes\n";
  const std::string ends = "  the caches and files read before, by SHA-256: no such file";
  EXPECT_EQ(find(input).missing, begins + "  --read and --set: name no path\n" + ends);
  EXPECT_EQ(find(input).file, "rows.jsonl");
  EXPECT_TRUE(find(input).allow.empty());
  named_ = {folder_ / "there"};
  EXPECT_EQ(find(input).missing, begins + "  " + named_[0].string() + ": no such file\n" + ends);
}

// The recipe is not trusted: the file is where its name says, but is not among the paths that the
// command line names.
TEST_F(FindInput, AFileThatMayNotBeReadIsNamedByTheCommand) {
  const std::string file = folder_.write("here/rows.jsonl", "{}\n");
  const LockedInput input = locked(InputKind::kData, file);
  const FileAccess access{.readable = {folder_ / "sent"}, .writable = {folder_ / "cache"}};
  limit_file_access(&access);
  const FoundInput found = find(input);
  EXPECT_NE(found.missing.find("  " + file +
                               ": is there, but a recipe that is not trusted may not read it\n"),
            std::string::npos)
      << found.missing;
  EXPECT_EQ(found.allow, std::vector{file});
  // A lock of someone else's must not make the command name any file.
  LockedInput other = input;
  other.files[0].bytes = 4;
  EXPECT_TRUE(find(other).allow.empty());
}

// A lock of someone else's chooses the names: a folder above them may be any.
TEST_F(FindInput, FilesThatMayNotBeReadAreNamedOneByOne) {
  make_dirs(folder_ / "here/a");
  make_dirs(folder_ / "here/b");
  folder_.write("here/a/1.jsonl", "{}\n");
  folder_.write("here/b/1.jsonl", "{ }\n");
  const LockedInput input = locked(InputKind::kData, (folder_ / "here/*/1.jsonl").string());
  ASSERT_EQ(input.files.size(), 2u);
  const FileAccess access{.readable = {folder_ / "sent"}, .writable = {folder_ / "cache"}};
  limit_file_access(&access);
  EXPECT_EQ(find(input).allow, (std::vector{(folder_ / "here/a/1.jsonl").string(),
                                            (folder_ / "here/b/1.jsonl").string()}));
}

TEST_F(FindInput, OfALinkThatMayNotBeReadItsTargetIsNamed) {
  const LockedInput input = locked_rows();
  const std::string target = folder_.write("there/secret", "{}\n");
  std::filesystem::create_symlink(target, folder_ / "sent/rows.jsonl");
  const FileAccess access{.readable = {folder_ / "sent"}, .writable = {folder_ / "cache"}};
  limit_file_access(&access);
  EXPECT_EQ(find(input).allow, std::vector{target});
}

TEST_F(FindInput, AGlobIsLockedFileByFile) {
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

}  // namespace xrun::input_search_test
