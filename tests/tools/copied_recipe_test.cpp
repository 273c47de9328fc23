// xrun init --from a stranger's bundle: its folder may be one in which other programs look for
// files of theirs.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/child_process.h"
#include "core/base/file.h"
#include "core/bundle/bundle_file.h"
#include "tests/scratch_folder.h"
#include "tests/tree.h"

namespace xrun::copied_recipe_test {
namespace {

class CopiedRecipes : public testing::Test {
 protected:
  // Returns the output of the copy of a bundle that has members beside its recipe.
  std::string copy(const std::string& recipe, const std::vector<std::string>& others) {
    BundleLock lock;
    lock.recipe = recipe;
    lock.config = lock.origins = lock.seeds = lock.binary = lock.operators = Json::object();
    std::vector<BundleMember> members = {{.name = recipe, .file = {}, .text = "return 1"}};
    for (const std::string& name : others)
      members.push_back({.name = name, .file = {}, .text = "x"});
    write_bundle(lock, members, folder_ / "a.xrb");
    const std::vector<std::string> words = {binary_path("xrun"), "init", folder_ / "copy", "--from",
                                            folder_ / "a.xrb"};
    run_child(words, folder_ / "output");
    return read_file(folder_ / "output");
  }
  bool has(const std::string& name) const {
    return std::filesystem::exists(folder_ / "copy" / name);
  }

  ScratchFolder folder_;
};

}  // namespace

TEST_F(CopiedRecipes, HaveCodeAndInputsAlone) {
  const std::string out =
      copy("recipe/a.lua", {"recipe/.git/config", "recipe/Makefile", "data/1/.envrc",
                            "recipe/lib/b.lua", "data/1/rows.jsonl"});
  EXPECT_TRUE(has("a.lua") && has("lib/b.lua") && has("data/1/rows.jsonl")) << out;
  EXPECT_FALSE(has(".git") || has("Makefile") || has("data/1/.envrc")) << out;
  EXPECT_NE(out.find("left out recipe/.git/config"), std::string::npos) << out;
}

TEST_F(CopiedRecipes, QuoteANameForTheShell) {
  const std::string out = copy("recipe/x; touch y;.lua", {});
  EXPECT_NE(out.find(" 'x; touch y;.lua'\n"), std::string::npos) << out;
}

TEST_F(CopiedRecipes, RefuseTwoMembersOfOneName) {
  EXPECT_NE(copy("recipe/data/1/a.lua", {"data/1/a.lua"}).find("two of its members would become"),
            std::string::npos);
}

}  // namespace xrun::copied_recipe_test
