// The rule rewards of lua/xrun/rewards.lua.

#include "lua/state/builtin_modules.h"
#include "tests/lua/state/lua_fixture.h"

namespace xrun::rewards_test {

class Rewards : public LuaTest {
 protected:
  Rewards() { open_builtin_modules(state_); }
  std::string value(const std::string& call) { return run("return xrun.rewards." + call); }
};

TEST_F(Rewards, CompareAnswersAsTextAndAsNumbers) {
  EXPECT_EQ(value("exact(' 42\\n', 42)"), "1");
  EXPECT_EQ(value("exact('42.', '42')"), "0");
  for (const auto& [text, last] :
       std::vector<std::pair<const char*, const char*>>{{"so 1,234,567.5 it is.", "1234567.5"},
                                                        {"12-5", "5"},
                                                        {"x = -5.", "-5"},
                                                        {"none", "nil"},
                                                        {"-7", "-7"},
                                                        {"1,2,3", "3"},
                                                        {"f(x)-3", "3"},
                                                        {"is 3,000", "3000"},
                                                        {"", "nil"}}) {
    EXPECT_EQ(value("last_number(" + std::string("'") + text + "')"), last) << text;
  }
  EXPECT_EQ(value("number('The sum is 35.', '35')"), "1");
  EXPECT_EQ(value("number('36', 35)"), "0");
  EXPECT_EQ(value("number('', 35)"), "0");
  EXPECT_EQ(value("number('100.4', 100, 0.01)"), "1");
  error_has("xrun.rewards.number('1', 'none')", "the wanted answer \"none\" has no number");
}

TEST_F(Rewards, CheckTheFormAndTheLength) {
  EXPECT_EQ(value("format(' <a>x</a> ', '<a>.-</a>')"), "1");
  EXPECT_EQ(value("format('<a>x</a> y', '<a>.-</a>')"), "0");
  // Yu et al. 2025, eq. 13, with a limit of 20 tokens and a margin of 5.
  for (const auto& [length, penalty] : std::vector<std::pair<int, const char*>>{
           {10, "0"}, {15, "0"}, {16, "-0.2"}, {18, "-0.6"}, {20, "-1"}, {21, "-1"}}) {
    EXPECT_EQ(value("overlong(" + std::to_string(length) + ", 20, 5)"), penalty) << length;
  }
}

TEST_F(Rewards, AcceptOneJsonValueAndNothingElse) {
  for (const char* text :
       {"1", "-0.5e+3", R"("a\u00e9\n")", "[]", R"([1, {"a": [true,false,null]} ])", " {} ",
        R"({"a":1,"b":{}})", "0", R"("")"}) {
    EXPECT_EQ(value(std::string("json([==[") + text + "]==])"), "1") << text;
  }
  for (const char* text :
       {"",         "01",        "[1,]", R"({"a"})",    "{a:1}", "\"a", R"("\x")",
        "tru",      "1 2",       "[",    R"({"a":1,})", "-",     "1.",  "nul",
        "\"a\tb\"", R"({"a":})", ",",    "[1 2]",       "NaN",   "'a'"}) {
    EXPECT_EQ(value(std::string("json([==[") + text + "]==])"), "0") << text;
  }
  EXPECT_EQ(value("json(('['):rep(1e5))"), "0");
}

}  // namespace xrun::rewards_test
