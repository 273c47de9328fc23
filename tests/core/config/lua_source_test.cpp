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
