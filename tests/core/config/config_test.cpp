// The config of a recipe. Messages are verbatim: they are the interface.

#include "core/config/config.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/config/recipe_config.h"

namespace xrun::config_test {

TEST(RecipeConfig, ReadsLiteralsWithTheirLines) {
  const Config c =
      read_config(config_text("beta = -0.5, name = 'a\\n\\x41', -- comment\n"
                              "list = { 1, 2; 3 }, flag = true, long = [==[x]]y]==],",
                              "print(cfg.beta, cfg.name, cfg.list, cfg[\"flag\"], cfg.long)"));
  EXPECT_EQ(c.number("beta"), -0.5);
  EXPECT_EQ(c.text("name"), "a\nA");
  EXPECT_EQ(c.at("list").size(), 3u);
  EXPECT_EQ(c.text("long"), "x]]y");
  EXPECT_EQ(c.origin("beta"), "dpo.lua:2");
  EXPECT_EQ(c.origin("list.3"), "dpo.lua:3");
  EXPECT_EQ(c.origin("optim.schedule"), "default");
}

TEST(RecipeConfig, AcceptsAnyLocalNameAndParentheses) {
  EXPECT_EQ(read_config("local c = x.config({ beta = 2 })\nprint(c.beta)").number("beta"), 2);
  EXPECT_EQ(read_config("print('no config at all')").text("template"), "auto");
}

TEST(RecipeConfig, RejectsExpressions) {
  EXPECT_EQ(
      resolve_error(config_text("beta = f(1)", "print(cfg.beta)")),
      "dpo.lua:2: `beta`: config values are literals (a number, text, true, false, a table of "
      "them), so that they can be read without running the recipe; got `f`");
  EXPECT_EQ(resolve_error(config_text("beta = 2 * 3", "print(cfg.beta)")).substr(0, 16),
            "dpo.lua:2: `beta");
  EXPECT_EQ(resolve_error(config_text("beta = nil")),
            "dpo.lua:2: `beta`: leave a key out instead of setting it "
            "to nil");
  for (const char* text : {"# mine\nbeta = 1", "beta = 1, # mine", "beta = 1 # mine"}) {
    EXPECT_EQ(resolve_error(config_text(text, "print(cfg.beta)")),
              "dpo.lua:2: `#`: a comment in Lua begins with --")
        << text;
  }
  EXPECT_NE(resolve_error(config_text("beta = #names", "print(cfg.beta)")).find("literals"),
            std::string::npos);
  EXPECT_EQ(resolve_error(config_text("beta = 1,\nbeta = 2", "print(cfg.beta)")),
            "dpo.lua:3: `beta`: the key is given twice; the first is in line 2");
  EXPECT_EQ(resolve_error(config_text("list = { 1, a = 2 }")),
            "dpo.lua:2: `list`: a table has either named keys or a list, not both");
  EXPECT_EQ(resolve_error("local a = xrun.config {}\nlocal b = xrun.config {}"),
            "dpo.lua:2: a second config; the first is in line 1");
  EXPECT_NE(resolve_error("local a = xrun.config { b = {"), "no error");
}

TEST(RecipeConfig, HabitsOfOtherLanguagesAreExplained) {
  const std::pair<const char*, const char*> cases[] = {
      {"shuffle = True", "`shuffle`: Lua writes true"},
      {"template = None", "`template`: leave a key out instead of setting it to nothing"},
      {"\"beta\": 0.1", "`beta`: write beta = VALUE, not \"beta\": VALUE"},
      {"\"beta\" = 0.1", "`beta`: write beta = VALUE, not \"beta\" = VALUE"},
      {"\"a b\" = 0.1", "`a b`: write [\"a b\"] = VALUE, not \"a b\" = VALUE"},
      {"beta: 0.1", "`beta`: write beta = VALUE, not beta: VALUE"},
      {"beta : 0.1", "`beta`: write beta = VALUE, not beta: VALUE"},
      {"valid = { every: 2 }", "`valid.every`: write every = VALUE, not every: VALUE"},
      {"betas = [0.9, 0.99]", "`betas`: a list is written with braces: { 0.9, 0.999 }"},
      {"model = smollm2", "got `smollm2`; text needs quotes: \"smollm2\""},
      {"model = runs/x/hf", "got `runs`; text needs quotes"},
      {"epochs = 1，steps = 2", "`epochs`: `，` (U+FF0C) is not ASCII; write ,"},
      {"epochs = 1, steps＝2", "`steps`: `＝` (U+FF1D) is not ASCII; write ="},
      {"model = “tiny”", "`“` (U+201C) is not ASCII; write \""},
      {"beta：0.1", "`beta`: `：` (U+FF1A) is not ASCII; write ="},
      {"optim = { lr＝0.1 }", "`optim.lr`: `＝` (U+FF1D) is not ASCII; write ="},
  };
  for (const auto& [text, hint] : cases) {
    EXPECT_NE(resolve_error(config_text(text)).find(hint), std::string::npos)
        << resolve_error(config_text(text));
  }
}

TEST(RecipeConfig, AMissingCommaIsNamedAfterThePrecedingValue) {
  try {
    read_config(config_text("  model = 'm'\n  beta = 0.1,", "print(cfg.beta)"));
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_STREQ(e.what(),
                 "dpo.lua:2: a comma is missing after `model`\n"
                 "     2 |   model = 'm'\n"
                 "       |              ^");
  }
  EXPECT_EQ(resolve_error(config_text("data = { { path = 'a' } }\nbeta = 1", "print(cfg.beta)")),
            "dpo.lua:2: a comma is missing after `data`");
  EXPECT_EQ(resolve_error(config_text("data = { { path = 'a' }\n{ path = 'b' } }")),
            "dpo.lua:2: a comma is missing after `data.1`");
  EXPECT_EQ(resolve_error(config_text("list = { 1 2 }")),
            "dpo.lua:2: a comma is missing after `list.1`");
  EXPECT_EQ(resolve_error(config_text("long = [[a\nb]]\nbeta = 1")),
            "dpo.lua:3: a comma is missing after `long`");
}

TEST(RecipeConfig, NamesOfOtherLibrariesGiveTheKeyHere) {
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

// A known name comes before a near one of the recipe.
TEST(RecipeConfig, ANameOfAnotherLibraryIsNotTakenForAMisspelling) {
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

TEST(RecipeConfig, ANumberInPlaceOfATableNamesTheMemberThatWasMeant) {
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

TEST(RecipeConfig, ATextInPlaceOfAListIsMetWithTheList) {
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

TEST(RecipeConfig, NamesAKeyThatIsNeverReadAndTheReadThatMeantIt) {
  EXPECT_EQ(resolve_error(config_text("betta = 0.1,", "\nlocal b = cfg.beta")),
            "dpo.lua:2: `betta` is never read; line 5 reads `cfg.beta`");
  EXPECT_EQ(resolve_error(config_text("epoch = 2")),
            "dpo.lua:2: `epoch` is never read: no line says `cfg.epoch`; did you mean `epochs`?");
  EXPECT_EQ(
      resolve_error(config_text("warmup = 2")),
      "dpo.lua:2: `warmup` is never read: no line says `cfg.warmup`; the engine's key of that "
      "name is `optim.warmup`");
}

TEST(RecipeConfig, NamesAReadOfAMissingKey) {
  EXPECT_EQ(resolve_error(config_text("beta = 1", "print(cfg.beta)\nprint(cfg.bta)")),
            "dpo.lua:5: `cfg.bta` is read, but the config has no `bta`; did you mean `cfg.beta`?");
  EXPECT_EQ(resolve_error(config_text("", "print(cfg.optim.lrr)")),
            "dpo.lua:4: `cfg.optim.lrr` is read, but `optim` has no `lrr`; did you mean "
            "`cfg.optim.lr`?");
  EXPECT_EQ(resolve_error(config_text("", "-- cfg.none\nprint('cfg.none', x.cfg.none)")),
            "no error");
}

TEST(RecipeConfig, AssigningToAKeyIsAnErrorAtItsLine) {
  EXPECT_EQ(resolve_error(config_text("beta = 1", "print(cfg.beta)\ncfg.beta = 5")),
            "dpo.lua:5: `cfg.beta` is assigned, but the config is read-only: change the value in "
            "xrun.config or with --set beta=VALUE, or use a local variable");
  EXPECT_EQ(resolve_error(config_text("optim = { lr = 1 }", "cfg.optim['lr'] = 2")),
            "dpo.lua:4: `cfg.optim.lr` is assigned, but the config is read-only: change the value "
            "in xrun.config or with --set optim.lr=VALUE, or use a local variable");
  EXPECT_EQ(resolve_error(config_text("beta = 1", "print(cfg.beta == 1)")), "no error");
}

TEST(RecipeConfig, NumbersOfLuaJITAreRejectedOnlyInsideTheConfig) {
  EXPECT_EQ(read_config(config_text("beta = 2",
                                    "local big, i = 1LL, 2e3i\nlocal s = '\\d'\nprint(cfg.beta)"))
                .number("beta"),
            2);
  EXPECT_EQ(resolve_error(config_text("beta = 1ULL", "print(cfg.beta)")).substr(0, 22),
            "dpo.lua:2: `beta`: con");
  EXPECT_NE(resolve_error(config_text("beta = 1ULL")).find("got 1ULL, which is not a plain number"),
            std::string::npos);
  EXPECT_NE(resolve_error(config_text("beta = 1e400")).find("got 1e400, which is out of range"),
            std::string::npos);
}

TEST(RecipeConfig, StringsTakeTheEscapesOfLuaJIT) {
  EXPECT_EQ(
      read_config(config_text("name = 'p\\u{61}\\u{20AC}\\x41\\65\\z \n b\\\\'", "print(cfg.name)"))
          .text("name"),
      "pa\u20acAAb\\");
  for (const char* wrong :
       {"\\d", "\\u61", "\\u{110000}", "\\u{d800}", "\\u{}", "\\xg1", "\\256"}) {
    EXPECT_NE(resolve_error(config_text(fmt::format("name = '{}'", wrong), "print(cfg.name)"))
                  .find("which is not an escape"),
              std::string::npos)
        << wrong;
  }
}

TEST(RecipeConfig, TheErrorShowsTheLineWithAMark) {
  try {
    read_config(config_text("  betta = 0.1,", "print(cfg.beta)"));
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_STREQ(e.what(),
                 "dpo.lua:2: `betta` is never read; line 4 reads `cfg.beta`\n"
                 "     2 |   betta = 0.1,\n"
                 "       |   ^^^^^");
  }
}

TEST(RecipeConfig, JsonHasValuesAndOrigins) {
  const Json json = read_config(config_text("beta = 1", "print(cfg.beta)")).to_json();
  EXPECT_EQ(json.at("values").at("beta").as_int(), 1);
  EXPECT_EQ(json.at("origins").at("beta").as_string(), "dpo.lua:2");
  EXPECT_EQ(json.at("origins").at("save.keep").as_string(), "default");
}

}  // namespace xrun::config_test
