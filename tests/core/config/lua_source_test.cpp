// The scanner tells code from strings and comments in Lua source, finished or not.

#include "core/config/lua_source.h"

#include <gtest/gtest.h>

#include "core/config/excerpt.h"

namespace xrun::lua_source_test {
namespace {

std::vector<std::string> names(std::string_view text, bool dotted) {
  std::vector<std::string> out;
  for (const LuaToken& name : lua_names(text, dotted)) out.push_back(name.text);
  return out;
}

TEST(LuaSource, NamesSkipStringsCommentsAndNumbers) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(names("local x = 'y' .. z2 -- w", false), (Names{"local", "x", "z2"}));
  EXPECT_EQ(names("f(cfg.optim.lr, 0x1F, a.b:c())", true),
            (Names{"f", "cfg.optim.lr", "a.b", "c"}));
  EXPECT_EQ(names("x = [[ a\nb ]] c", false), (Names{"x", "c"}));
}

TEST(LuaSource, AFieldNameIsAnIdentifierThatIsNotAKeyword) {
  for (const char* name : {"x", "_", "q_proj", "a1"}) EXPECT_TRUE(is_lua_name(name)) << name;
  for (const char* name : {"", "1a", "end", "a-b", "a b", " a", "#a", "\xC3\xA9"}) {
    EXPECT_FALSE(is_lua_name(name)) << name;
  }
}

TEST(LuaSource, AnEndOfLineInAStringIsALineFeed) {
  for (const char* text : {"[[\r\na\r\nb]] c", "[[\n\ra\n\rb]] c", "[[\na\nb]] c", "'a\\\r\nb' c",
                           "'a\\\n\rb' c", "'a\\\nb' c"}) {
    const std::vector<LuaToken> tokens = lex_lua(text);
    EXPECT_EQ(tokens[0].kind, LuaTokenKind::kString) << text;
    EXPECT_EQ(tokens[0].text, "a\nb");
    EXPECT_EQ(tokens[1].line, text[0] == '[' ? 3 : 2) << text;
  }
  EXPECT_EQ(lex_lua("[[\r\n\r\n\r\r]]")[0].text, "\n\n\n");
}

TEST(LuaSource, AWrongDecimalEscapeEndsWithItsDigits) {
  EXPECT_EQ(lex_lua("'a\\300'")[0].text, "\\300, which is not an escape");
  EXPECT_EQ(lex_lua("'a\\300' b")[1].text, "b");
}

TEST(LuaSource, ANumberMayHaveAnyNumberOfDigits) {
  const std::string digits = "0.1" + std::string(68, '0') + "1";
  EXPECT_EQ(lex_lua(digits)[0].kind, LuaTokenKind::kNumber);
  EXPECT_EQ(lex_lua(digits)[0].number, 0.1);
  EXPECT_EQ(lex_lua(digits)[0].text, digits);
  EXPECT_EQ(lex_lua("1e-3-2")[0].number, 1e-3);
  EXPECT_EQ(lex_lua("0x1e-3")[0].number, 0x1e);
  for (const char* text : {"1LL", "2i", "3x", "1..2", "1.2.3", "1e-", "1\xCE\xB2"}) {
    EXPECT_EQ(lex_lua(text)[0].text, std::string(text) + ", which is not a plain number");
  }
}

TEST(LuaSource, LettersBeyondAsciiMakeNames) {
  EXPECT_EQ(names("local \xCE\xB2 = a\xC3\xA9z.\xCE\xB2", true),
            (std::vector<std::string>{"local", "\xCE\xB2", "a\xC3\xA9z.\xCE\xB2"}));
  // A byte order mark is not a letter of the first word; a full-width comma is a sign.
  EXPECT_EQ(names("\xEF\xBB\xBFlocal a\uff0cb", false),
            (std::vector<std::string>{"local", "a", "b"}));
  EXPECT_TRUE(is_sign(lex_lua("a\uff0cb")[1], "\uff0c"));
}

TEST(LuaSource, AnOpenStringIsUnfinishedUpToItsEnd) {
  const std::vector<LuaToken> tokens = lex_lua("f('ab");
  ASSERT_EQ(tokens.size(), 4u);
  EXPECT_TRUE(tokens[2].unfinished);
  EXPECT_EQ(tokens[2].begin, 2u);
  EXPECT_EQ(tokens[2].end, 5u);
  EXPECT_FALSE(lex_lua("f('ab')")[2].unfinished);
}

TEST(LuaSource, ALineOpensABlockByItsLastToken) {
  for (const char* line : {"if a then", "else", "for i = 1, 2 do -- twice", "t = {", "f(",
                           "local function f(a, b)", "map(rows, function(row)"}) {
    EXPECT_TRUE(opens_block(line)) << line;
  }
  for (const char* line : {"", "undo", "x = 'do'", "f(a)", "f(function() return 1 end, b())"}) {
    EXPECT_FALSE(opens_block(line)) << line;
  }
}

TEST(LuaSource, AnExcerptMarksAByteUpToTheEndOfItsLine) {
  EXPECT_EQ(excerpt_of_byte("a = 1\nb = 2\n", 11), "\n     2 | b = 2\n       |      ^");
}

TEST(LastingLocals, TopLevelLocalsBecomeNamesOfTheEnvironment) {
  EXPECT_EQ(with_lasting_locals("local x = 1"), "      x = 1");
  EXPECT_EQ(with_lasting_locals("local x, y"), "      x, y = nil");
  EXPECT_EQ(with_lasting_locals("local a local b = 2"), "      a = nil       b = 2");
  EXPECT_EQ(with_lasting_locals("local function f(p) return p end"),
            "      function f(p) return p end");
}

TEST(LastingLocals, LocalsInsideBlocksAreUnchanged) {
  for (const char* chunk : {
           "do local x = 1 end",
           "function f() local x end",
           "for i = 1, 2 do local x = i end",
           "if a then local x elseif b then local y else local z end",
           "repeat local x = f() until x",
           "while true do local x end",
           "f(function() local x = 1 end)",
       }) {
    EXPECT_EQ(with_lasting_locals(chunk), chunk);
  }
  EXPECT_EQ(with_lasting_locals("do local x end local y"), "do local x end       y = nil");
}

TEST(LastingLocals, StringsAndCommentsAreNotCode) {
  for (const char* chunk :
       {"x = 'local y'", "x = [[\nlocal y]]", "-- local y\nx = 1", "x.local_y = 1"}) {
    EXPECT_EQ(with_lasting_locals(chunk), chunk);
  }
}

TEST(LastingLocals, LinesAndColumnsAreUnchanged) {
  EXPECT_EQ(with_lasting_locals("local a,\n  b\nlocal c = {\n 1 }"),
            "      a,\n  b = nil\n      c = {\n 1 }");
}

}  // namespace
}  // namespace xrun::lua_source_test
