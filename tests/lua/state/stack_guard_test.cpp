// Recursion through C is an error at the recipe's line; each of these once ended the process.

#include <thread>

#include "tests/lua/state/lua_fixture.h"

namespace xrun::stack_guard_test {

class StackGuardTest : public LuaTest {
 protected:
  void overflows(const std::string& code) {
    const std::string text = error(code);
    EXPECT_NE(text.find("stack overflow"), std::string::npos) << code << "\n"
                                                              << text.substr(0, 500);
    EXPECT_NE(text.find("test.lua:"), std::string::npos) << code << "\n" << text.substr(0, 500);
  }
};

TEST_F(StackGuardTest, NestedCoroutinesEndInAnError) {
  overflows("local function f() local x = coroutine.wrap(f)() return x end f()");
  overflows(
      "local function f() local ok, e = coroutine.resume(coroutine.create(f)) "
      "if not ok then error(e, 0) end end f()");
}

TEST_F(StackGuardTest, SlowCallbacksOfTheLibraryEndInAnError) {
  overflows("local function f() return (string.gsub('a', 'a', f)) end f()");
  overflows("local function f() return (('a'):gsub('a', f)) end f()");
  overflows("local function f() table.sort({1, 2}, f) return true end f()");
  overflows("local function f() local g, e = load(f) if not g then error(e, 0) end end f()");
}

TEST_F(StackGuardTest, SlowMetamethodsEndInAnError) {
  overflows(
      "local t = setmetatable({}, {__tostring = function(t) local s = ('%s'):format(t) return s "
      "end}) "
      "local s = tostring(t) return s");
  overflows(
      "local t = setmetatable({}, {__tostring = function(t) print(t) return '' end}) print(t)");
  overflows(
      "local t = {} setmetatable(t, {__index = function(t, k) return t[k .. ''] end}) "
      "return t.x");
}

TEST_F(StackGuardTest, SlowChainsOfProtectedCallsEndInAnError) {
  overflows("local function f() local ok, e = pcall(f) if not ok then error(e, 0) end end f()");
  overflows("local function f() xrun.no_grad(f) end f()");
  EXPECT_EQ(run("local function f() return pcall(string.gsub, 'a', 'a', f) end f() return 1"), "1");
}

TEST_F(StackGuardTest, WorksOnAThreadWithItsOwnStack) {
  std::thread([&] {
    overflows("local function f() return (string.gsub('a', 'a', f)) end f()");
  }).join();
}

TEST_F(StackGuardTest, GuardedFunctionsBehaveLikePlainLua) {
  EXPECT_EQ(run("return ('abc'):gsub('b', function(c) return c:upper() end)"), "aBc, 1");
  EXPECT_EQ(run("local t = {3, 1, 2} table.sort(t) return table.concat(t, ' ')"), "1 2 3");
  EXPECT_EQ(
      run("local g = coroutine.wrap(function(a) local b = coroutine.yield(a + 1) return b end) "
          "return g(1), g(5)"),
      "2, 5");
  EXPECT_EQ(run("local c = coroutine.create(function() error({}) end) "
                "return coroutine.resume(c) == false, coroutine.status(c)"),
            "true, dead");
  error_has("string.gsub(1, nil, 2)", "bad argument #2 to 'gsub'");
  error_has("coroutine.wrap(3)", "bad argument #1 to 'wrap'");
}

}  // namespace xrun::stack_guard_test
