// `extends`: what merges, what is replaced, where each value comes from, and what is refused.

#include "core/config/config_base.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/bundle/bundle_file.h"
#include "core/config/config.h"
#include "tests/scratch_folder.h"

namespace xrun::config_base_test {
namespace {

std::string config(const std::string& inside, const std::string& after = "") {
  return "local cfg = xrun.config {\n" + inside + "\n}\n" + after;
}

class ConfigBase : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& inside, const std::string& after = "") {
    folder_.write(name, config(inside, after));
  }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  ScannedRecipe scan(const std::string& name) const {
    return scan_with_bases(file(name), read_file(file(name)));
  }
  Config resolve(const std::string& name, const std::vector<std::string>& sets = {}) const {
    return Config::resolve(scan(name), sets);
  }
  // The first line of the error, without the folder.
  std::string error(const std::string& name) const {
    std::string text = error_of([&] { resolve(name); });
    text = text.substr(0, text.find('\n'));
    const std::string folder = folder_.path().string() + "/";
    for (size_t at; (at = text.find(folder)) != std::string::npos;) text.erase(at, folder.size());
    return text;
  }

  ScratchFolder folder_;
};

}  // namespace

TEST_F(ConfigBase, TablesMergeKeyByKeyAndListsAreReplaced) {
  write("base.lua",
        "beta = 0.1,\noptim = { lr = 1e-5, warmup = 0.1 },\ndata = { { path = 'a' }, { path = 'b' "
        "} },");
  write("dpo.lua", "extends = 'base.lua',\noptim = { lr = 2e-5 },\ndata = { { path = 'c' } },",
        "print(cfg.beta)");
  const Config resolved = resolve("dpo.lua");
  EXPECT_EQ(resolved.number("optim.lr"), 2e-5);
  EXPECT_EQ(resolved.number("optim.warmup"), 0.1);
  EXPECT_EQ(resolved.at("data").size(), 1u);
  EXPECT_EQ(resolved.text("data.1.path"), "c");
  EXPECT_EQ(resolved.origin("optim.lr"), file("dpo.lua") + ":3");
  EXPECT_EQ(resolved.origin("optim.warmup"), file("base.lua") + ":3");
  EXPECT_EQ(resolved.origin("beta"), file("base.lua") + ":2");
  EXPECT_EQ(resolved.find("extends"), nullptr);
}

TEST_F(ConfigBase, TheNearestBaseWinsAndWhatItReplacesIsKnown) {
  write("a.lua", "beta = 1,\nseed = 1,");
  write("b.lua", "extends = 'a.lua',\nbeta = 2,");
  write("c.lua", "extends = 'b.lua',", "print(cfg.beta)");
  EXPECT_EQ(resolve("c.lua").number("beta"), 2);
  EXPECT_EQ(resolve("c.lua").whole("seed"), 1);
  const ScannedRecipe scanned = scan("c.lua");
  ASSERT_EQ(scanned.replaced.size(), 1u);
  EXPECT_EQ(scanned.replaced[0].path, "beta");
  EXPECT_EQ(resolve("c.lua", {"beta=3"}).origin("beta"), "--set");
}

// Steps and epochs exclude each other, so the nearer one removes the other.
TEST_F(ConfigBase, StepsReplaceTheEpochsOfABase) {
  write("base.lua", "epochs = 3,");
  write("dpo.lua", "extends = 'base.lua',\nsteps = 5,");
  EXPECT_EQ(resolve("dpo.lua").whole("steps"), 5);
  EXPECT_EQ(resolve("dpo.lua").origin("epochs"), "default");
}

TEST_F(ConfigBase, StepsDecideTheLengthOfABaseThatHasEpochsToo) {
  for (const char* both : {"epochs = 3,\nsteps = 5,", "steps = 5,\nepochs = 3,"}) {
    write("base.lua", both);
    write("dpo.lua", "extends = 'base.lua',");
    EXPECT_EQ(resolve("dpo.lua").whole("steps"), 5);
    EXPECT_EQ(resolve("dpo.lua").origin("epochs"), "default");
    write("epochs.lua", "extends = 'base.lua',\nepochs = 2,");
    EXPECT_EQ(resolve("epochs.lua").find("steps"), nullptr);
    EXPECT_EQ(resolve("epochs.lua").whole("epochs"), 2);
  }
}

TEST_F(ConfigBase, AKeyOfABaseNeedNotBeRead) {
  write("base.lua", "beta = 1,");
  write("dpo.lua", "extends = 'base.lua',");
  EXPECT_EQ(error("dpo.lua"), "");
}

TEST_F(ConfigBase, ErrorsHaveBothLines) {
  write("base.lua", "seed = 1,\noptim = { lr = 1e-5 },");
  write("clash.lua", "extends = 'base.lua',\noptim = 'fast',");
  EXPECT_EQ(error("clash.lua"),
            "clash.lua:3: `optim` is text, and a table of named keys in the base, base.lua:3");
  write("lost.lua", "seed = 1,\nextends = 'nowhere.lua',");
  EXPECT_TRUE(error("lost.lua").starts_with("lost.lua:3: extends nowhere.lua: nowhere.lua: "))
      << error("lost.lua");
  write("x.lua", "extends = 'y.lua',");
  write("y.lua", "seed = 1,\nextends = 'x.lua',");
  EXPECT_EQ(error("x.lua"), "y.lua:3: extends x.lua, which extends this one (x.lua:2): a cycle");
  folder_.write("plain.lua", "return 1");
  write("of_plain.lua", "extends = 'plain.lua',");
  EXPECT_EQ(error("of_plain.lua"),
            "of_plain.lua:2: extends plain.lua, which has no config: no line says local cfg = "
            "xrun.config {");
  write("number.lua", "extends = 3,");
  EXPECT_EQ(error("number.lua"),
            "number.lua:2: extends: got 3, wanted the file of a recipe or bundle");
  // The base's own slips are at the base's lines.
  write("slip.lua", "seed = 1,\nshufle = true,\noptim = { lrr = 1 },");
  write("of_slip.lua", "extends = 'slip.lua',");
  EXPECT_TRUE(error("of_slip.lua").starts_with("slip.lua:4: there is no key `optim.lrr`"))
      << error("of_slip.lua");
}

TEST_F(ConfigBase, ABundleGivesItsResolvedSettings) {
  BundleLock lock;
  lock.recipe = "recipe/a.lua";
  lock.config = Json(Json::Object{{"beta", 0.3}, {"optim", Json(Json::Object{{"lr", 1e-3}})}});
  lock.origins = Json(Json::Object{{"beta", "recipe/a.lua:4"}, {"optim.lr", "--set"}});
  lock.seeds = lock.binary = lock.operators = Json::object();
  write_bundle(lock, {{.name = "recipe/a.lua", .file = {}, .text = "return 1"}}, folder_ / "a.xrb");
  write("dpo.lua", "extends = 'a.xrb',\noptim = { warmup = 0.2 },", "print(cfg.beta)");
  const Config resolved = resolve("dpo.lua");
  EXPECT_EQ(resolved.number("beta"), 0.3);
  EXPECT_EQ(resolved.number("optim.lr"), 1e-3);
  EXPECT_EQ(resolved.origin("beta"), file("a.xrb") + " (recipe/a.lua:4)");
  EXPECT_EQ(resolved.origin("optim.warmup"), file("dpo.lua") + ":3");
}

TEST_F(ConfigBase, SetMayNotChangeTheBase) {
  write("base.lua", "seed = 1,");
  write("dpo.lua", "extends = 'base.lua',");
  EXPECT_EQ(error_of([&] { resolve("dpo.lua", {"extends=other.lua"}); }),
            "--set extends: the base of a config is in its file; change it there");
}

}  // namespace xrun::config_base_test
