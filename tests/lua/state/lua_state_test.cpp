// A built-in text that Lua refuses is an error that names it, not a value to be called.

#include "lua/state/lua_state.h"

#include "tests/lua/state/lua_fixture.h"

namespace xrun::lua_state_test {

using BuiltinText = LuaTest;

TEST_F(BuiltinText, ATextThatCannotBeLoadedIsAnErrorAndLeavesTheStackAsItWas) {
  lua_State* L = state_;
  const int top = lua_gettop(L);
  std::string text;
  try {
    push_builtin_text(L, "return return", "=run:steps");
  } catch (const Error& error) {
    text = error.what();
  }
  EXPECT_TRUE(text.starts_with("run:steps: this built-in text cannot be loaded: ")) << text;
  EXPECT_EQ(lua_gettop(L), top);
}

TEST_F(BuiltinText, AValidTextIsPushedAsAFunction) {
  lua_State* L = state_;
  const StackGuard guard(L);
  push_builtin_text(L, "return 7", "=seven");
  ASSERT_TRUE(lua_isfunction(L, -1));
  protected_call(L, 0, 1);
  EXPECT_EQ(lua_tointeger(L, -1), 7);
}

}  // namespace xrun::lua_state_test
