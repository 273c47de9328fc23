// Settings without an effect are noted, and no shipped recipe has one.

#include "core/config/unread_settings.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/file.h"
#include "core/base/strings.h"
#include "core/config/config_base.h"
#include "tests/core/config/recipe_config.h"
#include "tests/tree.h"

namespace xrun::unread_settings_test {

std::string notes(const std::string& text, const std::vector<std::string>& sets = {}) {
  return joined(unread_settings(scan_recipe("dpo.lua", text), sets), "\n");
}

const std::string kRun = "xrun.policy(cfg.model)\nxrun.run(cfg, {})\n";

TEST(UnreadSettings, ATableThatNoLineReadsIsNotedWithItsOrigin) {
  const std::string text = config_text("model = 'm',\nkd = { topk = 4 },", kRun);
  EXPECT_EQ(notes(text),
            "dpo.lua:3: kd has no effect: no line of dpo.lua reads cfg.kd; xrun explain kd says "
            "what takes it");
  EXPECT_EQ(notes(config_text("model = 'm'", kRun),
                  {"save.every=3", "sampling.temperature=0.3", "sampling.top_p=0.5"}),
            "--set sampling.temperature=0.3: sampling has no effect: no line of dpo.lua reads "
            "cfg.sampling; xrun explain sampling says what takes it");
  EXPECT_EQ(notes(config_text("epochs = 1", "xrun.policy('m')\nxrun.run(cfg, {})"), {"model=n"}),
            "--set model=n: model has no effect: no line of dpo.lua reads cfg.model; xrun explain "
            "model says what takes it");
}

TEST(UnreadSettings, AMemberBesideOnesThatAreReadIsNoted) {
  const std::string text =
      config_text("model = 'm', optim = { lr = 1 }", kRun + "f({ lr = cfg.optim.lr })");
  EXPECT_EQ(notes(text), "");
  EXPECT_EQ(notes(text, {"optim.clip=2"}),
            "--set optim.clip=2: optim.clip has no effect: no line of dpo.lua reads "
            "cfg.optim.clip; xrun explain optim.clip says what takes it");
}

TEST(UnreadSettings, KeysThatTheEngineReadsItselfAreNotNoted) {
  EXPECT_EQ(notes(config_text("model = 'm'", kRun),
                  {"lora.rank=4", "seed=2", "laws.bos=false", "strict=true", "export.dtype=bf16",
                   "batch.max_tokens=512", "batch.pairs=8", "dist.level=0"}),
            "--set batch.pairs=8: batch has no effect: no line of dpo.lua reads cfg.batch; "
            "xrun explain batch says what takes it")
      << "max_tokens is for evaluations too";
  EXPECT_EQ(notes(config_text("model = 'm', batch = { pairs = 8, max_tokens = 512 }",
                              kRun + "run:steps(d, { pairs = cfg.batch.pairs })")),
            "");
}

TEST(UnreadSettings, AConfigThatIsPassedOnOrIndexedByAVariableHasNoNotes) {
  const std::vector<std::string> sets = {"sampling.temperature=0.3"};
  for (const char* line : {"build(cfg)", "local c = cfg", "print(cfg[name])", "return { cfg }"}) {
    EXPECT_EQ(notes(config_text("model = 'm'", kRun + line), sets), "") << line;
  }
  EXPECT_NE(notes(config_text("model = 'm'", kRun), sets), "");
}

TEST(UnreadSettings, NoShippedRecipeHasOne) {
  int recipes = 0;
  for (const auto& file : std::filesystem::directory_iterator(source_path("recipes"))) {
    if (file.path().extension() != ".lua") continue;
    const std::string path = file.path().string();
    const ScannedRecipe recipe = scan_with_bases(path, read_file(path, kMostRecipeBytes));
    EXPECT_EQ(joined(unread_settings(recipe, {}), "\n"), "");
    EXPECT_FALSE(recipe.passed_on) << path << ": its --set would go without notes";
    ++recipes;
  }
  EXPECT_GT(recipes, 20);
}

}  // namespace xrun::unread_settings_test
