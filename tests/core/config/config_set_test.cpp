// --set KEY=VALUE on the command line. Messages are verbatim: they are the interface.

#include "core/config/config_set.h"

#include <gtest/gtest.h>

#include "core/config/config.h"
#include "tests/core/config/recipe_config.h"

namespace xrun::config_set_test {

TEST(ConfigSet, TakesLiteralsBareTextAndListElements) {
  const std::string text = config_text("beta = 1, data = { { path = 'a' } }", "print(cfg.beta)");
  const Config c =
      read_config(text, {"beta=0.2", "data.1.path=b.jsonl", "model=123", "optim.lr=1e-4",
                         "data.2.path='c d'", "valid={fraction = 0.5}", "shuffle=false"});
  EXPECT_EQ(c.number("beta"), 0.2);
  EXPECT_EQ(c.text("data.1.path"), "b.jsonl");
  EXPECT_EQ(c.text("data.2.path"), "c d");
  EXPECT_EQ(c.whole("data.2.weight"), 1);
  EXPECT_EQ(c.text("model"), "123");
  EXPECT_EQ(c.number("valid.fraction"), 0.5);
  EXPECT_FALSE(c.flag("shuffle"));
  EXPECT_EQ(c.origin("beta"), "--set");
  EXPECT_EQ(c.origin("optim.lr"), "--set");
}

TEST(ConfigSet, RefusesUnknownKeys) {
  const std::string text = config_text("beta = 1", "print(cfg.beta)");
  EXPECT_EQ(resolve_error(text, {"betta=2"}),
            "--set betta=2: there is no key `betta`; did you mean `beta`?");
  EXPECT_EQ(resolve_error(text, {"optim.lrr=2"}),
            "--set optim.lrr=2: there is no key `optim.lrr`; did you mean `optim.lr`?");
  EXPECT_EQ(resolve_error(text, {"beta"}), "--set beta: wanted key=value, as in --set beta=0.2");
  EXPECT_EQ(resolve_error(text, {"valid.fraction=3"}),
            "--set: valid.fraction: got 3, wanted a number of at least 0 and below 1");
  EXPECT_EQ(resolve_error(text, {"data.3.path=x"}),
            "--set data.3.path=x: there is no key `data.3`; data.1 adds the next element");
  EXPECT_EQ(resolve_error(text, {"data.0.path=x"}),
            "--set data.0.path=x: there is no key `data.0`; the first element is data.1");
  EXPECT_EQ(resolve_error(text, {"data.path=x"}),
            "--set data.path=x: there is no key `data.path`; elements of a list have numbers: "
            "data.1.path");
}

TEST(ConfigSet, HintsNameAKeyOfAnotherTableWithCare) {
  const std::string text = config_text("beta = 1", "print(cfg.beta)");
  const auto hint = [&](const std::string& key) {
    const std::string error = resolve_error(text, {key + "=4"});
    const std::string start = fmt::format("--set {0}=4: there is no key `{0}`", key);
    return error.starts_with(start) ? error.substr(start.size()) : error;
  };
  EXPECT_EQ(hint("model.path"), "; did you mean `model`?");
  EXPECT_EQ(hint("model.dtype"), "; did you mean `dtype`?");
  EXPECT_EQ(hint("template.name"), "; did you mean `template`?");
  EXPECT_EQ(hint("valid.path"), "; did you mean `valid.data`?");
  EXPECT_EQ(hint("alpha"),
            "; there is `lora.alpha`; xrun explain alpha lists the keys of that name");
  EXPECT_EQ(hint("eps"), "; there is `optim.eps`; xrun explain eps lists the keys of that name");
  EXPECT_EQ(hint("wd"), "; here it is `optim.weight_decay`");
  EXPECT_EQ(hint("precision"), "; here it is `dtype`");
  EXPECT_EQ(hint("size"), "");
  EXPECT_EQ(hint("valid.size"), "");
  EXPECT_EQ(hint("loss"),
            "; the loss is in the recipe: recipes/pair_losses.lua takes --set "
            "loss=NAME; `kd.loss` is distillation's");
}

TEST(ConfigSet, ReachesInsideFreeTablesAndDefaultLists) {
  const std::string text = config_text("data = { { path = 'a' } }");
  const Config c = read_config(text, {"laws.prefix=false", "optim.lr=1", "optim.betas.2=0.95",
                                      "data.1.fields.prompt=q", "data.1.keep.1=id"});
  EXPECT_FALSE(c.flag("laws.prefix"));
  EXPECT_EQ(c.number("optim.betas.1"), 0.9);
  EXPECT_EQ(c.number("optim.betas.2"), 0.95);
  EXPECT_EQ(c.text("data.1.fields.prompt"), "q");
  EXPECT_EQ(c.text("data.1.keep.1"), "id");
  EXPECT_EQ(resolve_error(text, {"laws.prefix=1"}),
            "--set: laws: got {\"prefix\":1}, wanted a table of name = true or false");
  EXPECT_EQ(resolve_error(text, {"optim.lr=1", "optim.betas.3=0.5"}),
            "--set optim.betas.3=0.5: there is no key `optim.betas.3`; did you mean "
            "`optim.betas.2`?");
}

TEST(ConfigSet, FullWidthSignsAreNamed) {
  const std::string text = config_text("beta = 1, name = 'x'", "print(cfg.beta, cfg.name)");
  EXPECT_EQ(resolve_error(text, {"beta＝2"}),
            "--set beta＝2: wanted key=value, as in --set beta=0.2; `＝` (U+FF1D) is not ASCII; "
            "write =");
  EXPECT_EQ(resolve_error(text, {"beta：2"}),
            "--set beta：2: wanted key=value, as in --set beta=0.2; `：` (U+FF1A) is not ASCII; "
            "write =");
  EXPECT_EQ(resolve_error(text, {"optim。lr=2"}),
            "--set optim。lr=2: there is no key `optim。lr`; `。` (U+3002) is not ASCII; write .");
  EXPECT_EQ(resolve_error(text, {"beta=２"}),
            "--set beta=２: `beta` is a number in dpo.lua:2, got ２; `２` (U+FF12) is not ASCII; "
            "write 2");
  EXPECT_EQ(resolve_error(text, {"lora.targets={“all”}"}),
            "--set: lora.targets: got \"{“all”}\", wanted a list of text, { \"...\" }; `“` "
            "(U+201C) is not ASCII; write \"");
  // A text may hold them.
  EXPECT_EQ(read_config(text, {"name=甲，乙"}).text("name"), "甲，乙");
}

TEST(ConfigSet, KeepsTheTypeOfTheRecipesOwnKeys) {
  const std::string text = config_text("beta = 1, name = 'x', flag = true, list = { 1 },",
                                       "print(cfg.beta, cfg.name, cfg.flag, cfg.list)");
  EXPECT_EQ(resolve_error(text, {"beta=true"}),
            "--set beta=true: `beta` is a number in dpo.lua:2, got true");
  for (const char* wrong : {"nil", "1/2", "hello", "1e400", "{1}", "'1'"}) {
    EXPECT_EQ(resolve_error(text, {fmt::format("beta={}", wrong)}),
              fmt::format("--set beta={0}: `beta` is a number in dpo.lua:2, got {0}", wrong));
  }
  EXPECT_EQ(resolve_error(text, {"beta="}),
            "--set beta=: `beta` is a number in dpo.lua:2, got nothing");
  EXPECT_EQ(resolve_error(text, {"flag=0"}),
            "--set flag=0: `flag` is true or false in dpo.lua:2, got 0");
  EXPECT_EQ(resolve_error(text, {"list=2"}), "--set list=2: `list` is a table in dpo.lua:2, got 2");
  EXPECT_EQ(resolve_error(text, {"list.1=x"}),
            "--set list.1=x: `list.1` is a number in dpo.lua:2, got x");
  const Config c = read_config(text, {"name=12", "beta=-2.5", "list={ 3, 4 }"});
  EXPECT_EQ(c.text("name"), "12");
  EXPECT_EQ(c.number("beta"), -2.5);
  EXPECT_EQ(c.at("list").size(), 2u);
}

}  // namespace xrun::config_set_test
