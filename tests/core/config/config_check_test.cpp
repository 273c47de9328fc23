// A config is refused for a wrong type, a value out of range, a key that is never read or a read
// without a key. Messages are verbatim: they are the interface.

#include "core/config/config_check.h"

#include <gtest/gtest.h>

#include "core/config/config.h"
#include "core/config/config_field.h"
#include "tests/core/config/recipe_config.h"
#include "tests/error_of.h"

namespace xrun::config_check_test {

TEST(ConfigCheck, RefusesUnknownNamesWrongTypesAndValuesOutOfRange) {
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
  EXPECT_EQ(resolve_error(config_text("data = 'a.jsonl'")),
            "dpo.lua:2: data: got \"a.jsonl\", wanted a list of tables, { { path = \"...\" } }");
  EXPECT_EQ(resolve_error(config_text("data = { { pth = 'a' } }")),
            "dpo.lua:2: there is no key `data.1.pth`; did you mean `data.1.path`?");
  EXPECT_EQ(resolve_error(config_text("data = { { weight = 1 } }")),
            "dpo.lua:2: data.1 has no `path`");
  EXPECT_EQ(resolve_error(config_text("laws = { bos = 1 }")),
            "dpo.lua:2: laws: got {\"bos\":1}, wanted a table of name = true or false");
}

TEST(ConfigCheck, AKeyThatIsReadAndHasNoDefaultIsRequired) {
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
            "prompts, groups and tokens to it, or --set batch.pairs=...");
}

TEST(ConfigCheck, AnUnknownKeyWithoutANearNameGetsNoSuggestion) {
  EXPECT_EQ(resolve_error(config_text("mixture = { blocks = 3 }")),
            "dpo.lua:2: there is no key `mixture.blocks`");
  EXPECT_EQ(resolve_error(config_text("batch = { windows = 3 }")),
            "dpo.lua:2: there is no key `batch.windows`");
}

TEST(ConfigCheck, TheExampleOfAnElementIsAccepted) {
  for (const char* path : {"data", "batch.schedule", "mixture.stages"}) {
    const std::string example = "{ " + element_example(std::string(path) + "[]") + " }";
    const Json value = literal_json(parse_literal(example).value());
    EXPECT_EQ(error_of([&] { check_fields(value, path); }), "") << path << " = " << example;
  }
}

TEST(ConfigCheck, AStageIsATableWithStartAndWeights) {
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

TEST(ConfigCheck, ShuffleIsAFlagOrBlocks) {
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

TEST(ConfigCheck, AModelIsANameOrTheSizesOfANewOne) {
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

TEST(ConfigCheck, NamesAKeyThatIsNeverReadAndTheReadThatMeantIt) {
  EXPECT_EQ(resolve_error(config_text("betta = 0.1,", "\nlocal b = cfg.beta")),
            "dpo.lua:2: `betta` is never read; line 5 reads `cfg.beta`");
  EXPECT_EQ(resolve_error(config_text("epoch = 2")),
            "dpo.lua:2: `epoch` is never read: no line says `cfg.epoch`; did you mean `epochs`?");
  EXPECT_EQ(
      resolve_error(config_text("warmup = 2")),
      "dpo.lua:2: `warmup` is never read: no line says `cfg.warmup`; the engine's key of that "
      "name is `optim.warmup`");
}

TEST(ConfigCheck, NamesAReadOfAMissingKey) {
  EXPECT_EQ(resolve_error(config_text("beta = 1", "print(cfg.beta)\nprint(cfg.bta)")),
            "dpo.lua:5: `cfg.bta` is read, but the config has no `bta`; did you mean `cfg.beta`?");
  EXPECT_EQ(resolve_error(config_text("", "print(cfg.optim.lrr)")),
            "dpo.lua:4: `cfg.optim.lrr` is read, but `optim` has no `lrr`; did you mean "
            "`cfg.optim.lr`?");
  EXPECT_EQ(resolve_error(config_text("", "-- cfg.none\nprint('cfg.none', x.cfg.none)")),
            "no error");
}

TEST(ConfigCheck, ANumberInPlaceOfATableNamesTheMemberThatWasMeant) {
  EXPECT_EQ(resolve_error(config_text("valid = 0.2")),
            "dpo.lua:2: valid: got 0.2, wanted a table with named keys; did you mean valid = { "
            "fraction = 0.2 }?");
  EXPECT_EQ(resolve_error(config_text("save = 100")),
            "dpo.lua:2: save: got 100, wanted a table with named keys; did you mean save = { "
            "every = 100 }?");
  EXPECT_EQ(resolve_error(config_text("optim = { lr = 1 }"), {"optim=1e-5"}),
            "--set: optim: got 1e-05, wanted a table with named keys; did you mean --set "
            "optim.lr=1e-05?");
  EXPECT_EQ(resolve_error(config_text("export = 'bf16'")),
            "dpo.lua:2: export: got \"bf16\", wanted a table with named keys; did you mean "
            "export = { dtype = \"bf16\" }?");
  EXPECT_EQ(resolve_error(config_text(""), {"export=bf16"}),
            "--set: export: got \"bf16\", wanted a table with named keys; did you mean --set "
            "export.dtype=bf16?");
  EXPECT_EQ(resolve_error(config_text(""), {"batch=8"}),
            "--set: batch: got 8, wanted a table with named keys; it is `batch.pairs`, "
            "`batch.sequences` or `batch.prompts`, the size of one step; `batch.max_tokens` bounds "
            "a micro-batch");
  EXPECT_EQ(resolve_error(config_text("updates = { epochs = 2, groups = 4 }", "print(cfg.updates)"),
                          {"updates=2"}),
            "--set updates=2: `updates` is a table in dpo.lua:2, got 2; its keys: updates.epochs, "
            "updates.groups");
}

TEST(ConfigCheck, TextInPlaceOfAListNamesTheListThatWasMeant) {
  const std::string wanted = "wanted a list of text, { \"...\" }; did you mean ";
  const std::string lora = config_text("lora = { rank = 8 }");
  EXPECT_EQ(resolve_error(lora, {"lora.targets=all"}),
            "--set: lora.targets: got \"all\", " + wanted + "--set 'lora.targets={ \"all\" }'?");
  for (const std::string text : {"q_proj,v_proj", "{q_proj, v_proj}"}) {
    EXPECT_EQ(resolve_error(lora, {"lora.targets=" + text}),
              "--set: lora.targets: got \"" + text + "\", " + wanted +
                  "--set 'lora.targets={ \"q_proj\", \"v_proj\" }'?");
  }
  EXPECT_EQ(resolve_error(config_text("train = '*.mlp.*'")),
            "dpo.lua:2: train: got \"*.mlp.*\", " + wanted + "train = { \"*.mlp.*\" }?");
  EXPECT_EQ(resolve_error(config_text("optim = { lr = 1 }"), {"optim.betas=0.9,0.95"}),
            "--set: optim.betas: got \"0.9,0.95\", wanted a list of 2 numbers of at least 0 and "
            "below 1; did you mean --set 'optim.betas={ 0.9, 0.95 }'?");
  EXPECT_EQ(resolve_error(config_text("optim = { lr = 1 }"), {"optim.betas=high"}),
            "--set: optim.betas: got \"high\", wanted a list of 2 numbers of at least 0 and "
            "below 1");
}

TEST(ConfigCheck, NamesOfOtherLibrariesGiveTheKeyHere) {
  EXPECT_EQ(
      resolve_error(config_text("learning_rate = 1e-5")),
      "dpo.lua:2: `learning_rate` is never read: no line says `cfg.learning_rate`; here it is "
      "`optim.lr`");
  EXPECT_EQ(resolve_error(config_text("optim = { max_grad_norm = 1 }")),
            "dpo.lua:2: there is no key `optim.max_grad_norm`; here it is `optim.clip`");
  EXPECT_EQ(
      resolve_error(config_text("logging_steps = 10")),
      "dpo.lua:2: `logging_steps` is never read: no line says `cfg.logging_steps`; every step "
      "is logged");
  EXPECT_EQ(resolve_error(config_text(""), {"num_train_epochs=3"}),
            "--set num_train_epochs=3: there is no key `num_train_epochs`; here it is `epochs`");
}

// The hint of a known name wins over the recipe's nearest key.
TEST(ConfigCheck, ANameOfAnotherLibraryIsNotTakenForAMisspelling) {
  const std::string lora = config_text("lora = { rank = 4 }");
  EXPECT_EQ(resolve_error(lora, {"lora_r=8"}),
            "--set lora_r=8: there is no key `lora_r`; here it is `lora.rank`");
  EXPECT_EQ(resolve_error(config_text("lora = { rank = 4 },\nlora_r = 8")),
            "dpo.lua:3: `lora_r` is never read: no line says `cfg.lora_r`; here it is `lora.rank`");
  EXPECT_EQ(resolve_error(lora, {"device=cuda"}),
            "--set device=cuda: there is no key `device`; it is an option of the command: --device "
            "cuda");
  EXPECT_EQ(resolve_error(lora, {"template_kwargs.enable_thinking=false"}),
            "--set template_kwargs.enable_thinking=false: there is no key `template_kwargs`; it is "
            "an option of xrun.chat and the other openers: { template_kwargs = { enable_thinking = "
            "false } }; a row's column chat_template_kwargs comes first");
  EXPECT_EQ(resolve_error(lora, {"bf16=true"}),
            "--set bf16=true: there is no key `bf16`; it is `dtype`: --set dtype=bf16");
  EXPECT_EQ(resolve_error(lora, {"fp16=true"}),
            "--set fp16=true: there is no key `fp16`; it is `dtype`, which is fp32 or bf16; "
            "nothing trains in fp16");
  EXPECT_TRUE(resolve_error(lora, {"batch.size=4"})
                  .starts_with("--set batch.size=4: there is no key `batch.size`; it is "
                               "`batch.pairs`, `batch.sequences` or `batch.prompts`"));
  EXPECT_TRUE(resolve_error(config_text("batch = { size = 4 }"))
                  .starts_with("dpo.lua:2: there is no key `batch.size`; it is `batch.pairs`"));
  EXPECT_EQ(resolve_error(config_text("per_device_train_batch_size = 8")),
            "dpo.lua:2: `per_device_train_batch_size` is never read: no line says "
            "`cfg.per_device_train_batch_size`; it is `batch.pairs`, `batch.sequences` or "
            "`batch.prompts`, the size of a whole step: per_device_train_batch_size x "
            "gradient_accumulation_steps x devices; `batch.max_tokens` bounds a micro-batch");
  EXPECT_EQ(
      resolve_error(lora, {"gradient_accumulation_steps=4"}),
      "--set gradient_accumulation_steps=4: there is no key `gradient_accumulation_steps`; "
      "nothing accumulates: `batch.pairs`, `batch.sequences` or `batch.prompts` is the size of "
      "a whole step, per_device_train_batch_size x gradient_accumulation_steps x devices, "
      "which is cut into micro-batches of `batch.max_tokens` tokens");
}

}  // namespace xrun::config_check_test
