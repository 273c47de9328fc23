// xrun.frozen in recipes: a reference of another folder, and what a run refuses.

#include <cmath>
#include <numbers>

#include "lua/prompt/preview.h"
#include "tests/lua/bind/session_fixture.h"
#include "tests/tree.h"

namespace xrun::distill_test {
namespace {

class FrozenRuns : public SessionTest {
 protected:
  // A model of another vocabulary in ./other.
  static void make_other() {
    InitOptions options;
    options.hidden = 32;
    options.ffn = 64;
    options.tokenizer = source_path("tests/data/tokenizers/smol");
    options.vocab = Tokenizer::load(options.tokenizer)->vocab_size();
    init_model("other", options);
  }
  static void copy_model(const std::string& to) {
    std::filesystem::copy("tiny", to, std::filesystem::copy_options::recursive);
  }
  static std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  }
  // DPO whose reference is `expression`.
  static std::string dpo_against(const std::string& expression) {
    return replaced(head(), "policy:reference()", expression) +
           "for step, batch in run:steps(train, cfg.batch) do run:log(adamw:step(batch, dpo)) end\n"
           "run:log(run:evaluate(valid, dpo))\n" +
           kExport;
  }
};

TEST_F(FrozenRuns, AReferenceOfThePolicysFolderTrainsAsItsTwinDoes) {
  copy_model("same");
  ASSERT_EQ(run(dpo_against("policy:reference()"), "twin"), "");
  ASSERT_EQ(run(dpo_against("xrun.frozen(\"same\")"), "foreign"), "");
  EXPECT_EQ(metrics("foreign"), metrics("twin"));
  EXPECT_NEAR(values("foreign", "train/loss").at(0), std::numbers::ln2, 1e-7);
  EXPECT_EQ(values("foreign", "train/margin").at(0), 0);
  EXPECT_EQ(read_file("foreign/hf/model.safetensors"), read_file("twin/hf/model.safetensors"));
}

TEST_F(FrozenRuns, AResumeGivesTheSameBitsAndSavesNothingOfTheModel) {
  copy_model("same");
  const std::string text = dpo_against("xrun.frozen(\"same\")");
  expect_same_when_resumed(text, {2});
  ASSERT_EQ(run(dpo_against("policy:reference()"), "twin"), "");
  const auto saved = [](const std::string& dir) {
    uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
      if (entry.path().extension() == ".safetensors") bytes += entry.file_size();
    }
    return bytes;
  };
  EXPECT_EQ(saved("whole"), saved("twin"));
}

TEST_F(FrozenRuns, AResumeRefusesAModelWhoseFilesChanged) {
  copy_model("same");
  const std::string text = dpo_against("xrun.frozen(\"same\")");
  ASSERT_EQ(run(text, "a", false, 2), "");
  write_file_atomic("same/config.json", read_file("same/config.json") + "\n");
  has(run(text, "a", true), "the frozen model same has changed since the run began");
}

TEST_F(FrozenRuns, ThePlanCountsItsWeights) {
  copy_model("same");
  ASSERT_EQ(run(dpo_against("xrun.frozen(\"same\")"), "foreign"), "");
  ASSERT_EQ(run(dpo_against("policy:reference()"), "twin"), "");
  const auto planned = [](const std::string& dir) {
    return read_json(dir + "/run.json").at("memory").at("planned").at("reference").as_int();
  };
  EXPECT_GT(planned("foreign"), 0);
  EXPECT_EQ(planned("foreign"), planned("twin"));
}

TEST_F(FrozenRuns, OneThatDoesNotFitIsRefusedBeforeItLoads) {
  copy_model("large");
  std::filesystem::resize_file("large/model.safetensors", 100);  // not even looked at
  Json config = read_json("large/config.json");
  config.set("intermediate_size", int64_t{500'000'000});
  write_file_atomic("large/config.json", dump_json(config));
  setenv("XRUN_MEMORY_MB", "4000", 1);
  const std::string error = run(dpo_against("xrun.frozen(\"large\")"), "a");
  unsetenv("XRUN_MEMORY_MB");
  has(error, "reference 192 GB");
}

TEST_F(FrozenRuns, TokensOfAnotherVocabularyAreAnErrorOfTheRecipesLine) {
  make_other();
  const std::string text = dpo_against("xrun.frozen(\"other\")");
  const std::string error = run(text, "a");
  has(error, "other cannot read this batch: its tokens are those of tiny, another vocabulary (");
  has(error, "test.lua:");
  // A dry run, as of `xrun check`, finds it without weights.
  write_file_atomic("test.lua", text);
  std::filesystem::remove("other/model.safetensors");
  RecipeOptions options;
  options.recipe = "test.lua";
  options.threads = 1;
  const auto preview = open_preview(
      std::move(options), std::make_shared<Console>([](std::string_view) {}, ConsoleTraits{}));
  ASSERT_NE(preview->pause(), nullptr);
  preview->session().models.stand_in(std::make_shared<LogprobStandIn>(LogprobStandIn::seeded(7)));
  preview->hooks().plan.bodies = 1;
  EXPECT_FALSE(preview->resume());
  ASSERT_NE(preview->error(), nullptr);
  has(preview->error()->message, "other cannot read this batch: its tokens are those of tiny");
}

TEST_F(FrozenRuns, ADryRunReadsNoWeights) {
  copy_model("same");
  std::filesystem::remove("same/model.safetensors");
  write_file_atomic("test.lua", dpo_against("xrun.frozen(\"same\")"));
  RecipeOptions options;
  options.recipe = "test.lua";
  options.threads = 1;
  const auto preview = open_preview(
      std::move(options), std::make_shared<Console>([](std::string_view) {}, ConsoleTraits{}));
  ASSERT_NE(preview->pause(), nullptr) << preview->no_loop_text();
  preview->session().models.stand_in(std::make_shared<LogprobStandIn>(LogprobStandIn::seeded(7)));
  preview->hooks().plan.bodies = 1;
  EXPECT_TRUE(preview->resume()) << preview->error()->text();
}

TEST_F(FrozenRuns, WrongOptionsAreNamed) {
  const auto error_for = [&](const std::string& options) {
    return run("local xrun = require \"xrun\"\nxrun.frozen(\"tiny\", { " + options + " })\n", "");
  };
  has(error_for("cache = \"topp\""), "cache is \"topp\", wanted \"topk\" or \"hidden\"");
  has(error_for("k = 3"),
      "k is the number of columns that cache = \"topk\" stores; leave it out, or set that");
  has(error_for("cache = \"topk\", k = 0"), "k is 0, wanted at least 1");
  has(error_for("tokeniser = \"tiny\""), "tokenizer");
  has(run("local xrun = require \"xrun\"\nxrun.frozen(\"no/where\")\n", ""), "no/where");
}

}  // namespace
}  // namespace xrun::distill_test
