// Files and inputs of a recipe, read from its text.

#include "core/share/recipe_sources.h"

#include <gtest/gtest.h>

#include "core/config/config_base.h"
#include "tests/scoped_variable.h"
#include "tests/scratch_folder.h"

namespace xrun::recipe_sources_test {
namespace {

class Sources : public testing::Test {
 protected:
  RecipeSources read(const std::string& text, const std::vector<std::string>& sets = {}) {
    const std::string file = folder_.write("a.lua", text);
    const ScannedRecipe scanned = scan_with_bases(file, text);
    return read_recipe_sources(file, scanned, Config::resolve(scanned, sets));
  }
  static std::vector<std::string> members(const RecipeSources& sources) {
    std::vector<std::string> names;
    for (const SourceFile& file : sources.files) names.push_back(file.member);
    return names;
  }
  static bool has(const RecipeSources& sources, InputKind kind, const std::string& name) {
    return std::find(sources.inputs.begin(), sources.inputs.end(), NamedInput{kind, name}) !=
           sources.inputs.end();
  }

  ScratchFolder folder_;
};

using Names = std::vector<std::string>;

}  // namespace

TEST_F(Sources, ModulesRequireModules) {
  make_dirs(folder_ / "lib");
  folder_.write("lib/one.lua", "return require './two'");
  folder_.write("lib/two.lua", "return require [[xrun.kl]]");
  const RecipeSources sources = read("local one = require('lib.one') local ffi = require 'ffi'");
  EXPECT_EQ(members(sources), (Names{"recipe/a.lua", "recipe/lib/one.lua", "recipe/lib/two.lua"}));
  EXPECT_EQ(sources.recipe, "recipe/a.lua");
}

// The tree is kept, so that "../" means the same in a bundle.
TEST_F(Sources, AModuleAboveTheRecipeMovesItDown) {
  make_dirs(folder_ / "in");
  folder_.write("up.lua", "return 1");
  const std::string text = "return require '../up'";
  const std::string file = folder_.write("in/a.lua", text);
  const ScannedRecipe scanned = scan_with_bases(file, text);
  const RecipeSources sources = read_recipe_sources(file, scanned, Config::resolve(scanned));
  EXPECT_EQ(members(sources), (Names{"recipe/in/a.lua", "recipe/up.lua"}));
}

// Such a module is beside the recipe in a bundle.
TEST_F(Sources, AModuleFromXrunPathMovesWithTheModulesBesideIt) {
  make_dirs(folder_ / "lib/sub");
  folder_.write("lib/one.lua", "return require './sub/two'");
  folder_.write("lib/sub/two.lua", "return require '../three'");
  folder_.write("lib/three.lua", "return 1");
  const ScopedVariable path("XRUN_PATH", (folder_ / "lib").string());
  EXPECT_EQ(members(read("return require 'one'")),
            (Names{"recipe/a.lua", "recipe/one.lua", "recipe/sub/two.lua", "recipe/three.lua"}));
}

TEST_F(Sources, AModuleThatIsRequiredRightAfterConfigIsFound) {
  folder_.write("one.lua", "return 1");
  EXPECT_EQ(members(read("local conf = xrun.config\nrequire 'one'")),
            (Names{"recipe/a.lua", "recipe/one.lua"}));
}

TEST_F(Sources, AComputedNameIsReported) {
  const RecipeSources sources = read("\nreturn require(name)");
  ASSERT_EQ(sources.notices.size(), 1u);
  EXPECT_NE(sources.notices[0].find("a.lua:2: requires a module by a computed name"),
            std::string::npos);
}

TEST_F(Sources, InputsComeFromTheResolvedConfig) {
  const RecipeSources sources = read(
      "local cfg = xrun.config { model = 'm', teacher = 't', data = { { path = 'old' } },\n"
      "  chats = { { path = 'c*.jsonl' } } }\n"
      "local p = xrun.policy(cfg.model) local t = xrun.frozen(cfg.teacher, { k = 1 })\n"
      "local k = xrun.tokenizer 'other' print(cfg.chats, cfg.data)",
      {"data.1.path=new"});
  EXPECT_TRUE(has(sources, InputKind::kModel, "m"));
  EXPECT_TRUE(has(sources, InputKind::kModel, "t"));
  EXPECT_TRUE(has(sources, InputKind::kModel, "other"));
  EXPECT_TRUE(has(sources, InputKind::kData, "new"));
  EXPECT_TRUE(has(sources, InputKind::kData, "c*.jsonl"));
  EXPECT_FALSE(has(sources, InputKind::kData, "old"));
  EXPECT_EQ(sources.inputs.size(), 5u);
}

TEST_F(Sources, ATemplateIsAnInputIfItIsAFile) {
  const std::string file = folder_.write("t.jinja", "x");
  EXPECT_TRUE(
      has(read("local c = xrun.config { template = '" + file + "' }"), InputKind::kTemplate, file));
  EXPECT_TRUE(read("local c = xrun.config { template = 'chatml' }").inputs.empty());
}

TEST_F(Sources, WordsAreTheNamesAfterDotsAndColons) {
  const RecipeSources sources = read("local x = (a:log_sigmoid() + b.sum) -- c:relu()\nd'e:exp()'");
  EXPECT_EQ(sources.words, (std::set<std::string>{"log_sigmoid", "sum"}));
}

}  // namespace xrun::recipe_sources_test
