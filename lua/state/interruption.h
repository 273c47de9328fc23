#pragma once
// Interruption of Lua code by signals: the part of LuaState that hooks and handlers need.

#include <lua.hpp>
#include <string>

#include "lua/state/lua_state.h"

namespace xrun {

// Pushes the error that stops a recipe, with the line that was running.
void push_interruption(lua_State* L);

// The innermost line that the last signal stopped, "dpo.lua:37"; "" if there was none.
std::string interrupted_at(lua_State* L);

// The effect of the pending signal on the coroutine (LuaState::may_suspend).
Suspension suspension(lua_State* L);

// Replaces the global xpcall by one whose handlers cannot hold up an interruption.
void guard_xpcall(lua_State* L);

// Called by a state that closes: signals no longer reach it.
void forget_interruptible(lua_State* main) noexcept;

}  // namespace xrun
