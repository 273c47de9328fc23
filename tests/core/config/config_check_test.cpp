// The types, ranges and required keys of a config. Messages are verbatim: they are the interface.

#include "core/config/config_check.h"

#include <gtest/gtest.h>

#include "core/config/config.h"
#include "tests/core/config/recipe_config.h"

namespace xrun::config_check_test {

TEST(RecipeConfig, ChecksTheEnginesNamesTypesAndRanges) {
  EXPECT_EQ(resolve_error(config_text("optim = { lrr = 1 }")),
            "dpo.lua:2: there is no key `optim.lrr`; did you mean `optim.lr`?");
  EXPECT_EQ(resolve_error(config_text("optim = { epochs = 1 }")),
            "dpo.lua:2: there is no key `optim.epochs`; the engine's key of that name is `epochs`");
  EXPECT_EQ(resolve_error(config_text("optim = { beta = 1 }", "print(cfg.beta)")),
            "dpo.lua:2: there is no key `optim.beta`; did you mean `optim.betas`?");
  EXPECT_EQ(resolve_error(config_text("optim = { lr = 'x' }")),
            "dpo.lua:2: optim.lr: got \"x\", wanted a number above 0");
  EXPECT_EQ(resolve_error(config_text("optim = { lr = 0 }")),
            "dpo.lua:2: optim.lr: got 0, wanted a number above 0");
  EXPECT_EQ(resolve_error(config_text("over_length = 'skip'")),
            "dpo.lua:2: over_length: got \"skip\", wanted \"raise\", \"drop\" or \"cut\"");
  EXPECT_EQ(resolve_error(config_text("valid = { fraction = 2 }")),
            "dpo.lua:2: valid.fraction: got 2, wanted a number of at least 0 and below 1");
  EXPECT_EQ(resolve_error(config_text("valid = { fraction = 1 }")),
            "dpo.lua:2: valid.fraction: got 1, wanted a number of at least 0 and below 1");
  EXPECT_EQ(resolve_error(config_text("epochs = 0.5")),
            "dpo.lua:2: epochs: got 0.5, wanted a whole number of at least 1");
  EXPECT_EQ(resolve_error(config_text("data = {}")),
            "dpo.lua:2: data: got [], wanted a list of tables, { { path = \"...\" } }");
  EXPECT_EQ(resolve_error(config_text("data = { { path = 'a', keep = { 1 } } }")),
            "dpo.lua:2: data.1.keep: got [1], wanted a list of text, { \"...\" }");
  EXPECT_EQ(resolve_error(config_text("data = { { path = 'a', fields = { prompt = 1 } } }")),
            "dpo.lua:2: data.1.fields: got {\"prompt\":1}, wanted a table of name = \"text\"");
  EXPECT_EQ(
      resolve_error(config_text("optim = { lr = 1, betas = { 0.9, 1 } }")),
      "dpo.lua:2: optim.betas: got [0.9,1], wanted a list of 2 numbers of at least 0 and below 1");
  EXPECT_EQ(resolve_error(config_text("max_length = 1.5")),
            "dpo.lua:2: max_length: got 1.5, wanted a whole number of at least 1");
  EXPECT_EQ(resolve_error(config_text("data = 'a.jsonl'")),
            "dpo.lua:2: data: got \"a.jsonl\", wanted a list of tables, { { path = \"...\" } }");
  EXPECT_EQ(resolve_error(config_text("data = { { pth = 'a' } }")),
            "dpo.lua:2: there is no key `data.1.pth`; did you mean `data.1.path`?");
  EXPECT_EQ(resolve_error(config_text("data = { { weight = 1 } }")),
            "dpo.lua:2: data.1 has no `path`");
  EXPECT_EQ(resolve_error(config_text("laws = { bos = 1 }")),
            "dpo.lua:2: laws: got {\"bos\":1}, wanted a table of name = true or false");
}

TEST(RecipeConfig, RequiresKeysThatAreReadAndHaveNoDefault) {
  EXPECT_EQ(
      resolve_error(config_text("", "print(cfg.model)")),
      "dpo.lua:4: `model` has no value: A Hugging Face model folder, a name from `xrun "
      "models`, or the sizes of a new model with random weights: { layers = 4, hidden = 256, "
      "tokenizer = \"DIR\" }. Its weights depend on them, the tokenizer and `seed` alone. Add "
      "it to the config, or --set model=...");
  EXPECT_EQ(resolve_error(config_text("optim = { clip = 1 }")).substr(0, 35),
            "dpo.lua:2: `optim.lr` has no value:");
  EXPECT_EQ(resolve_error(config_text("batch = { max_tokens = 5 }")),
            "dpo.lua:2: `batch` does not say how much a step takes: add one of pairs, sequences, "
            "prompts, "
            "groups and tokens to it, or --set batch.pairs=...");
}

// A key without an effect would be ignored silently.
TEST(RecipeConfig, RefusesKeysWithoutAnEffect) {
  EXPECT_EQ(resolve_error(config_text("mixture = { blocks = 3 }")),
            "dpo.lua:2: there is no key `mixture.blocks`");
  EXPECT_EQ(resolve_error(config_text("batch = { windows = 3 }")),
            "dpo.lua:2: there is no key `batch.windows`");
}

TEST(RecipeConfig, AStageIsATableWithStartAndWeights) {
  const Config c =
      read_config(config_text("mixture = { stages = { { start = 0, weights = { 1, 0.5 } }, "
                              "{ start = 200, weights = { 0, 1 } } } }"),
                  {"mixture.stages.2.start=300", "mixture.stages.2.weights.1=0.2"});
  EXPECT_EQ(c.whole("mixture.stages.2.start"), 300);
  EXPECT_EQ(c.number("mixture.stages.2.weights.1"), 0.2);
  EXPECT_EQ(c.text("mixture.stop"), "all");
  // A stage without weights has no elements to set; weights={2} sets all of them.
  EXPECT_EQ(resolve_error(config_text("mixture = { stages = { { start = 0 } } }"),
                          {"mixture.stages.1.weights.1=2"}),
            "--set mixture.stages.1.weights.1=2: there is no key `mixture.stages.1.weights.1`");
  const auto stages = [](const std::string& text) {
    return resolve_error(config_text("mixture = { stages = " + text + " }"));
  };
  EXPECT_EQ(
      stages("{ 1 }"),
      "dpo.lua:2: mixture.stages.1: got 1, wanted a table, { start = 0, weights = { 1, 0.5 } }");
  EXPECT_EQ(stages("{ { start = 0 } }"), "dpo.lua:2: mixture.stages.1 has no `weights`");
  EXPECT_EQ(stages("{ { start = 0, weight = { 1 } } }"),
            "dpo.lua:2: there is no key `mixture.stages.1.weight`; did you mean "
            "`mixture.stages.1.weights`?");
  EXPECT_EQ(stages("{ { start = 0.5, weights = { 1 } } }"),
            "dpo.lua:2: mixture.stages.1.start: got 0.5, wanted a whole number of at least 0");
  EXPECT_EQ(stages("{ { start = 0, weights = { 1, -1 } } }"),
            "dpo.lua:2: mixture.stages.1.weights: got [1,-1], wanted a list of numbers of at least "
            "0");
  EXPECT_EQ(stages("3"),
            "dpo.lua:2: mixture.stages: got 3, wanted a list of tables, { { start = 0, weights = { "
            "1, 0.5 } } }");
}

TEST(RecipeConfig, ShuffleIsAFlagOrBlocks) {
  EXPECT_TRUE(read_config(config_text("")).flag("shuffle"));
  EXPECT_FALSE(read_config(config_text("shuffle = false")).flag("shuffle"));
  const Config c = read_config(config_text("shuffle = { block = 64 }"));
  EXPECT_EQ(c.whole("shuffle.block"), 64);
  EXPECT_EQ(c.whole("shuffle.window"), 512);
  EXPECT_EQ(read_config(config_text("shuffle = {}")).whole("shuffle.block"), 256);
  EXPECT_EQ(read_config(config_text(""), {"shuffle.window=8"}).whole("shuffle.window"), 8);
  EXPECT_EQ(resolve_error(config_text("shuffle = 3")),
            "dpo.lua:2: shuffle: got 3, wanted true, false or a table with named keys");
  EXPECT_EQ(resolve_error(config_text("shuffle = { blok = 3 }")),
            "dpo.lua:2: there is no key `shuffle.blok`; did you mean `shuffle.block`?");
  EXPECT_EQ(resolve_error(config_text("shuffle = { block = 0 }")),
            "dpo.lua:2: shuffle.block: got 0, wanted a whole number of at least 1");
}

TEST(RecipeConfig, AModelIsANameOrTheSizesOfANewOne) {
  EXPECT_EQ(read_config(config_text("model = 'tiny'")).text("model"), "tiny");
  const std::string sizes = config_text("model = { layers = 3, tokenizer = 'bytes' }");
  const Config c = read_config(sizes);
  EXPECT_EQ(c.whole("model.layers"), 3);
  EXPECT_EQ(c.text("model.preset"), "tiny");
  EXPECT_TRUE(c.flag("model.tied"));
  EXPECT_EQ(c.find("model.hidden"), nullptr) << "it depends on the preset";
  EXPECT_EQ(c.origin("model.layers"), "dpo.lua:2");
  EXPECT_EQ(c.origin("model.tied"), "default");
  EXPECT_EQ(read_config(sizes, {"model.layers=5"}).whole("model.layers"), 5);
  EXPECT_EQ(read_config(sizes, {"model=some/folder"}).text("model"), "some/folder");
  EXPECT_EQ(read_config(sizes, {"model=135"}).text("model"), "135");
  EXPECT_EQ(
      read_config(config_text("model = 'tiny'"), {"model={ hidden = 64 }"}).whole("model.hidden"),
      64);
  EXPECT_EQ(resolve_error(config_text("model = 3")),
            "dpo.lua:2: model: got 3, wanted text or a table with named keys");
  EXPECT_EQ(resolve_error(config_text("model = { layer = 3 }")),
            "dpo.lua:2: there is no key `model.layer`; did you mean `model.layers`?");
  EXPECT_EQ(resolve_error(config_text("model = { layers = 0 }")),
            "dpo.lua:2: model.layers: got 0, wanted a whole number of at least 1");
  EXPECT_EQ(
      resolve_error(config_text("model = { preset = 'huge' }")),
      "dpo.lua:2: model.preset: got \"huge\", wanted \"tiny\", \"mid\", \"moe-1\", \"moe-8\", "
      "\"moe-64\" or \"gpt2-tiny\"");
}

}  // namespace xrun::config_check_test
