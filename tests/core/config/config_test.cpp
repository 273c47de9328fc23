// A config is read from the text of its recipe, without running it. Messages are verbatim: they are
// the interface.

#include "core/config/config.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/config/recipe_config.h"
#include "tests/error_of.h"

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

TEST(RecipeConfig, AKeyMayHaveLettersBeyondAscii) {
  const std::string text = config_text("\u03b2 = 0.1", "print(cfg.\u03b2)");
  EXPECT_EQ(read_config(text).number("\u03b2"), 0.1);
  EXPECT_EQ(read_config(text, {"\u03b2=0.2"}).number("\u03b2"), 0.2);
  EXPECT_NE(resolve_error(config_text("\u03b2 = 0.1")).find("`\u03b2`"), std::string::npos)
      << resolve_error(config_text("\u03b2 = 0.1"));
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
  EXPECT_EQ(message_of<UsageError>([&] {
              read_config(config_text("  model = 'm'\n  beta = 0.1,", "print(cfg.beta)"));
            }),
            "dpo.lua:2: a comma is missing after `model`\n"
            "     2 |   model = 'm'\n"
            "       |              ^");
  EXPECT_EQ(resolve_error(config_text("data = { { path = 'a' } }\nbeta = 1", "print(cfg.beta)")),
            "dpo.lua:2: a comma is missing after `data`");
  EXPECT_EQ(resolve_error(config_text("data = { { path = 'a' }\n{ path = 'b' } }")),
            "dpo.lua:2: a comma is missing after `data.1`");
  EXPECT_EQ(resolve_error(config_text("list = { 1 2 }")),
            "dpo.lua:2: a comma is missing after `list.1`");
  EXPECT_EQ(resolve_error(config_text("long = [[a\nb]]\nbeta = 1")),
            "dpo.lua:3: a comma is missing after `long`");
}

TEST(RecipeConfig, AssigningToAKeyIsAnErrorAtItsLine) {
  EXPECT_EQ(resolve_error(config_text("beta = 1", "print(cfg.beta)\ncfg.beta = 5")),
            "dpo.lua:5: `cfg.beta` is assigned, but the config is read-only: change the value in "
            "xrun.config or with --set beta=VALUE, or use a local variable");
  EXPECT_EQ(resolve_error(config_text("optim = { lr = 1 }", "cfg.optim['lr'] = 2")),
            "dpo.lua:4: `cfg.optim.lr` is assigned, but the config is read-only: change the value "
            "in xrun.config or with --set optim.lr=VALUE, or use a local variable");
  EXPECT_EQ(resolve_error(config_text("beta = 1", "print(cfg.beta == 1)")), "no error");
  // A string "." before the name does not make it a field of something else.
  EXPECT_EQ(resolve_error(config_text("beta = 1", "local s = '.'\ncfg.beta = 5")).substr(0, 37),
            "dpo.lua:5: `cfg.beta` is assigned, bu");
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
       {"\\d", "\\u61", "\\u{110000}", "\\u{d800}", "\\u{}", "\\xg1", "\\x-1", "\\x 1", "\\256"}) {
    EXPECT_NE(resolve_error(config_text(fmt::format("name = '{}'", wrong), "print(cfg.name)"))
                  .find("which is not an escape"),
              std::string::npos)
        << wrong;
  }
}

TEST(RecipeConfig, TheErrorShowsTheLineWithAMark) {
  EXPECT_EQ(message_of<UsageError>(
                [&] { read_config(config_text("  betta = 0.1,", "print(cfg.beta)")); }),
            "dpo.lua:2: `betta` is never read; line 4 reads `cfg.beta`\n"
            "     2 |   betta = 0.1,\n"
            "       |   ^^^^^");
}

TEST(RecipeConfig, JsonHasValuesAndOrigins) {
  const Json json = read_config(config_text("beta = 1", "print(cfg.beta)")).to_json();
  EXPECT_EQ(json.at("values").at("beta").as_int(), 1);
  EXPECT_EQ(json.at("origins").at("beta").as_string(), "dpo.lua:2");
  EXPECT_EQ(json.at("origins").at("save.keep").as_string(), "default");
}

}  // namespace xrun::config_test
