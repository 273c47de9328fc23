// The Lua environment of functions over rows.

#include "lua/state/worker_function.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "lua/state/lua_state.h"

namespace xrun::worker_function_test {
namespace {

// The text of the chunk's result in a worker's state, or of the error that it raises.
std::string run(const std::string& code) {
  const std::unique_ptr<LuaState> state = open_worker_state();
  lua_State* L = *state;
  const bool failed = luaL_loadstring(L, code.c_str()) != 0 || lua_pcall(L, 0, 1, 0) != 0;
  return (failed ? "error: " : "") + std::string(lua_tostring(L, -1));
}

void expect_error(const std::string& code, const std::string& piece) {
  const std::string text = run(code);
  EXPECT_TRUE(text.starts_with("error: ") && text.find(piece) != std::string::npos)
      << code << " gives " << text;
}

TEST(WorkerFunction, RefusesToPrintAddresses) {
  for (const char* value : {"{}", "print", "coroutine.create(print)", "function() end"}) {
    for (const char* call : {"tostring(%)", "string.format('%s', %)", "('%s'):format(%)"}) {
      std::string code = std::string("local text = ") + call + " return text";
      code.replace(code.find("%)"), 1, value);
      if (std::string(value) == "print") {
        EXPECT_EQ(run(code), run(code)) << code;  // "builtin#29", as in every state
      } else {
        expect_error(code, "has no text that is the same in every run");
      }
    }
  }
  expect_error("return string.format('100%% %-20p', 'a')", "\"%p\" writes an address");
}

TEST(WorkerFunction, ValuesWithoutAnAddressKeepTheirText) {
  EXPECT_EQ(run("return tostring(1.5) .. tostring(true) .. tostring(nil) .. tostring(null)"),
            "1.5truenil" + run("return tostring(null)"));
  EXPECT_EQ(run("return string.format('%d %s %q %5.2f %%p %s', 3, true, 'a', 2, nil)"),
            "3 true \"a\"  2.00 %p nil");
  EXPECT_EQ(run("local t = setmetatable({}, { __tostring = function() return 'mine' end })\n"
                "return tostring(t) .. ('%s'):format(t)"),
            "minemine");
  expect_error("return string.format()", "bad argument #1 to 'format'");
}

TEST(WorkerFunction, TableKeysCannotBeSorted) {
  expect_error("for key in pairs { [{}] = 1, [{}] = 2 } do end",
               "keys of a table that are tables have no order");
  EXPECT_EQ(run("local keys = ''\n"
                "for key in pairs { [true] = 1, [false] = 1, b = 1, a = 1, [10] = 1, [9] = 1 } do\n"
                "  keys = keys .. tostring(key) .. ' '\n"
                "end\n"
                "return keys"),
            "false true 9 10 a b ");
}

TEST(WorkerFunction, CannotReadAClockFilesOrRandomNumbers) {
  for (const char* name : {"os", "io", "gcinfo", "collectgarbage", "require", "math.random"}) {
    expect_error(std::string("return ") + name + "()", "");
  }
}

}  // namespace
}  // namespace xrun::worker_function_test
