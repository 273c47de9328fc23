// xrun models and xrun import as a user calls them.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/child_process.h"
#include "core/base/file.h"
#include "tests/scratch_folder.h"
#include "tests/tree.h"

namespace xrun::model_commands_test {
namespace {

const std::string kBinary = binary_path("xrun");
const std::string kTiny = source_path("tests/golden/tiny.gguf");

class ModelCommands : public testing::Test {
 protected:
  void SetUp() override { ::setenv("XRUN_CACHE", (dir_ / "cache").c_str(), 1); }
  void TearDown() override { ::unsetenv("XRUN_CACHE"); }
  ChildResult xrun(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), kBinary);
    return run_child(arguments, dir_ / "output");
  }
  std::string out() const { return read_file(dir_ / "output"); }

  const ScratchFolder scratch_;
  const std::filesystem::path dir_ = scratch_.path();
};

TEST_F(ModelCommands, ImportMakesAFolderAndReportsItsContents) {
  EXPECT_EQ(xrun({"import", kTiny, (dir_ / "out").string()}).status, 0) << out();
  EXPECT_NE(out().find("20 tensors, 79104 parameters, 271 tokens"), std::string::npos) << out();
  EXPECT_TRUE(std::filesystem::exists(dir_ / "out/model.safetensors"));
}

TEST_F(ModelCommands, ATruncatedFileIsNamedWithStatusOne) {
  write_file_atomic(dir_ / "cut.gguf", read_file(kTiny).substr(0, 5000));
  EXPECT_EQ(xrun({"import", (dir_ / "cut.gguf").string(), (dir_ / "out").string()}).status, 1);
  EXPECT_NE(out().find("cut.gguf: byte "), std::string::npos) << out();
  EXPECT_FALSE(std::filesystem::exists(dir_ / "out"));
}

TEST_F(ModelCommands, ModelsAreListedWithTheirState) {
  EXPECT_EQ(xrun({"models"}).status, 0);
  EXPECT_NE(out().find("to fetch: xrun models get smollm2-135m-instruct"), std::string::npos)
      << out();
  EXPECT_EQ(xrun({"models", "--json"}).status, 0);
  EXPECT_NE(out().find("\"fetched\":false"), std::string::npos) << out();
}

TEST_F(ModelCommands, AnUnknownModelIsBadUsage) {
  EXPECT_EQ(xrun({"models", "get", "smollm2-135m-instrct"}).status, 2);
  EXPECT_NE(out().find("did you mean smollm2-135m-instruct?"), std::string::npos) << out();
  EXPECT_EQ(xrun({"import", kTiny}).status, 2);
  EXPECT_EQ(xrun({"import", "--help"}).status, 0);
}

}  // namespace
}  // namespace xrun::model_commands_test
