#pragma once
// A state with tensors, and chunks that run in it as if they were a recipe called test.lua.

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/error.h"
#include "lua/state/args.h"
#include "lua/state/source_texts.h"
#include "lua/tensor/tensor.h"

namespace xrun {

class LuaTest : public testing::Test {
 protected:
  LuaTest() {
    at::set_num_threads(1);  // small tensors; a busy machine makes threads wait for each other
    open_tensor(state_);
  }

  // Runs a chunk in which `xrun` is the module; returns tostring of its results, by ", ".
  std::string run(const std::string& code) {
    lua_State* L = state_;
    const StackGuard guard(L);
    const std::string text = "local xrun = ...\n" + code;
    remember_source(L, "@test.lua", text);
    if (luaL_loadbuffer(L, text.data(), text.size(), "@test.lua") != 0) {
      throw LuaError(report_of(L, -1));
    }
    state_.push_module(L);
    protected_call(L, 1, LUA_MULTRET);
    const int last = lua_gettop(L);
    std::string out;
    for (int i = 1; i <= last; ++i) {
      lua_getglobal(L, "tostring");
      lua_pushvalue(L, i);
      lua_call(L, 1, 1);
      out += (i == 1 ? "" : ", ") + std::string(lua_tostring(L, -1));
      lua_pop(L, 1);
    }
    return out;
  }

  // The whole text of the error that a chunk raises. The chunk's first line is line 2.
  std::string error(const std::string& code) {
    try {
      return "no error: " + run(code);
    } catch (const LuaError& e) {
      return e.what();
    }
  }

  bool error_has(const std::string& code, const std::string& piece) {
    const std::string text = error(code);
    if (text.find(piece) != std::string::npos) return true;
    ADD_FAILURE() << text << "\n  lacks: " << piece;
    return false;
  }

  LuaState state_;
};

}  // namespace xrun
