// Data files are found by path or glob, and a file of the wrong form is named with its fix.

#include "core/data/cache/data_files.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "tests/scratch_folder.h"

namespace xrun::data_files_test {
namespace {

namespace fs = std::filesystem;

TEST(DataFiles, AGlobGivesItsFilesInOrder) {
  const ScratchFolder folder;
  folder.write("b.jsonl", "{}\n");
  folder.write("a.jsonl", "{} \n");
  folder.write("c.txt", "");
  const std::vector<DataFile> files = find_data_files((folder.path() / "*.jsonl").string());
  ASSERT_EQ(files.size(), 2u);
  EXPECT_TRUE(files[0].name.ends_with("/a.jsonl"));
  EXPECT_EQ(files[0].bytes, 4u);
  EXPECT_NE(files[0].digest, files[1].digest);
}

TEST(DataFiles, AGitLfsPointerIsNotADataFile) {
  const ScratchFolder folder;
  const std::string path =
      folder.write("a.jsonl.gz", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  EXPECT_EQ(error_of([&] { find_data_files(path); }),
            path +
                ": is a Git LFS pointer, not the file itself; fetch it with git "
                "lfs pull");
}

TEST(DataFiles, AMistypedNameIsMetWithTheNearestFile) {
  const ScratchFolder folder;
  const std::string path = folder.write("pairs.jsonl", "{}\n");
  const std::string typed = (folder.path() / "pears.jsonl").string();
  EXPECT_TRUE(error_of([&] { find_data_files(typed); }).ends_with("; did you mean " + path + "?"));
  EXPECT_TRUE(error_of([&] { find_data_files("recipes/data/no_such_rows_at_all.jsonl"); })
                  .ends_with("; xrun init DIR --recipe NAME makes a folder with a recipe and its "
                             "data"));
}

TEST(DataFiles, ALinkToAMissingFileIsNamedWithItsTarget) {
  const ScratchFolder folder;
  const std::string link = (folder.path() / "pairs.jsonl").string();
  fs::create_symlink("gone.jsonl", link);
  EXPECT_EQ(error_of([&] { find_data_files(link); }),
            link + ": is a link to a file that does not exist, gone.jsonl");
}

TEST(DataFiles, OnlyNamesOfRowsAreDataNames) {
  for (const char* name : {"a.jsonl", "b/a.json.gz", "a.jsonl.zst", "a.csv", "a.parquet"}) {
    EXPECT_TRUE(is_data_name(name)) << name;
  }
  for (const char* name : {"dpo.lua", "jsonl", "dpo", "a.txt"}) {
    EXPECT_FALSE(is_data_name(name)) << name;
  }
  EXPECT_EQ(
      data_as_recipe_text("a b.jsonl"),
      "a b.jsonl: is data, not a recipe; name a recipe and give it the file: RECIPE.lua --set "
      "'data.1.path=a b.jsonl'");
}

TEST(DataFiles, ADataSetOfTheHubIsMetWithTheCommandThatDownloadsIt) {
  const std::string command =
      " data set of the Hugging Face hub is downloaded with\n  python3 -c \"from datasets import "
      "load_dataset; load_dataset('org/math', split='train').to_json('math.jsonl')\"";
  EXPECT_TRUE(
      error_of([] { find_data_files("org/math"); }).ends_with("; xrun reads files: a" + command));
  for (const std::string beginning : {"https://huggingface.co/datasets/", "hf://datasets/"}) {
    EXPECT_TRUE(error_of([&] {
                  find_data_files(beginning + "org/math");
                }).ends_with("; xrun reads files: this" + command));
  }
  EXPECT_TRUE(error_of([] {
                find_data_files("https://example.org/rows.jsonl");
              }).ends_with("; xrun reads files: download it first"));
  for (const char* file : {"org/math.jsonl", "org/math.json.gz", "org/math.txt", "a/b/c"}) {
    EXPECT_TRUE(error_of([&] { find_data_files(file); }).ends_with(")")) << file;
  }
}

TEST(DataFiles, AHomeFolderIsWrittenWithItsVariable) {
  const std::string fix = ": ~ is expanded by the shell alone, and only at the beginning of a word";
  EXPECT_TRUE(error_of([] {
                find_data_files("~/no/rows.jsonl");
              }).ends_with("; write $HOME/no/rows.jsonl" + fix));
  EXPECT_TRUE(error_of([] {
                find_data_files("~/no/*.jsonl");
              }).ends_with("; write $HOME/no/*.jsonl" + fix));
}

TEST(DataFiles, APathThatIsNotAFileIsNamed) {
  const ScratchFolder folder;
  const std::string missing = (folder.path() / "none.jsonl").string();
  EXPECT_TRUE(
      error_of([&] { find_data_files(missing); }).starts_with(missing + ": no such data file"));
  EXPECT_NE(error_of([&] { find_data_files(folder.path().string()); }).find("is a folder"),
            std::string::npos);
  EXPECT_NE(
      error_of([&] { find_data_files((folder.path() / "*.x").string()); }).find("no file matches"),
      std::string::npos);
  EXPECT_NE(
      error_of([&] { find_data_files(folder.write("p.parquet", "PAR1")); }).find("read_parquet"),
      std::string::npos);
  const std::string endless = "/" + std::string(300, 'a') + ".jsonl";
  EXPECT_EQ(
      error_of([&] { find_data_files(endless); }),
      endless +
          ": cannot be examined: File name too long; check the path and the disk that holds it");
}

TEST(DataFiles, BinaryFilesUnderTheNameOfRowsAreNamed) {
  const ScratchFolder folder;
  const auto message = [&](std::string_view bytes) {
    return error_of([&] { find_data_files(folder.write("rows.jsonl", bytes)); });
  };
  using std::operator""sv;
  EXPECT_NE(message("PK\3\4\0\0"sv).find("is a zip archive"), std::string::npos);
  EXPECT_NE(message("PAR1\x15\0"sv).find("is a Parquet file"), std::string::npos);
  EXPECT_NE(message("\x80\4\x95"sv).find("is a Python pickle"), std::string::npos);
  EXPECT_EQ(message("PAR1 is four letters\n"sv), "") << "a text";
}

// The command that the message names, run in a shell.
int run_hint(const std::string& path) {
  const std::string message = error_of([&] { find_data_files(path); });
  const size_t line = message.rfind("\n  ");
  EXPECT_NE(line, std::string::npos) << message;
  return std::system((message.substr(line) + " 2>/dev/null").c_str());
}

TEST(DataFiles, TheNamedCommandWorksAndOverwritesNothing) {
  const ScratchFolder folder;
  const std::string lines = folder.write("it's lines.rows", "{\"a\": 1}\n");
  folder.write("it's lines.jsonl", "mine");
  run_hint(lines);
  EXPECT_EQ(read_file(folder.path() / "it's lines.jsonl"), "mine");
  fs::remove(folder.path() / "it's lines.jsonl");
  EXPECT_EQ(run_hint(lines), 0);
  EXPECT_EQ(find_data_files((folder.path() / "it's lines.jsonl").string()).size(), 1u);
  EXPECT_EQ(run_hint(folder.write("array", "[{\"a\": 1}]")), 0);
  EXPECT_EQ(find_data_files((folder.path() / "array.json").string()).size(), 1u);
}

TEST(DataFiles, RowsAreReadFromThreeKindsPlainOrCompressed) {
  const ScratchFolder folder;
  for (const char* kind : {".jsonl", ".json", ".txt"}) {
    for (const char* packed : {"", ".gz", ".zst"}) {
      const std::string name = std::string("rows") + kind + packed;
      EXPECT_EQ(find_data_files(folder.write(name, "rows")).size(), 1u) << name;
    }
  }
  for (const char* name : {"a.text", "b.tar.gz", "c.zst", "d.csv", "e.parquet", "f"}) {
    EXPECT_NE(error_of([&] {
                find_data_files(folder.write(name, "plain text"));
              }).find("rows are read from .jsonl (one JSON object per line), .json"),
              std::string::npos)
        << name;
  }
}

}  // namespace
}  // namespace xrun::data_files_test
