// The arithmetic of lua/xrun/calculate.lua.

#include "lua/state/builtin_modules.h"
#include "tests/lua/state/lua_fixture.h"

namespace xrun::calculate_test {

class Calculate : public LuaTest {
 protected:
  Calculate() { open_builtin_modules(state_); }
  std::string value(const std::string& expression) {
    return run("local v, m = xrun.calculate([==[" + expression +
               "]==]) return v and tostring(v) or 'nil: ' .. m");
  }
};

TEST_F(Calculate, FollowsTheUsualPrecedence) {
  for (const auto& [expression, result] :
       std::vector<std::pair<const char*, const char*>>{{"2+3*4", "14"},
                                                        {"(2 + 3) * 4", "20"},
                                                        {"2^3^2", "512"},
                                                        {"-2^2", "-4"},
                                                        {"8 / 4 / 2", "1"},
                                                        {"7 % 4 - 1", "2"},
                                                        {"12*-3", "-36"},
                                                        {".5+.25", "0.75"},
                                                        {"2^-1", "0.5"},
                                                        {"+ 1", "1"},
                                                        {"10 - 2 - 3", "5"}}) {
    EXPECT_EQ(value(expression), result) << expression;
  }
}

TEST_F(Calculate, AnythingElseIsNilAndAReason) {
  for (const auto& [expression, reason] : std::vector<std::pair<std::string, const char*>>{
           {"1/0", "division by zero"},
           {"5 % 0", "division by zero"},
           {"", "it ends where a number is wanted"},
           {"2+", "it ends where a number is wanted"},
           {"(1", "a parenthesis is not closed"},
           {"1 2", "no operator at \"2\""},
           {"os.exit()", "no number at \"os.exit()\""},
           {"9^999", "not finite"},
           {std::string(300, '('), "nested too deep"},
           {std::string(300, '-'), "nested too deep"},
           {std::string(2000, '1'), "longer than 1000 characters"}}) {
    EXPECT_EQ(value(expression), std::string("nil: ") + reason) << expression;
  }
  EXPECT_EQ(run("return select(2, xrun.calculate(nil))"), "the expression is not a string");
}

}  // namespace xrun::calculate_test
