#include "lua/bind/retried.h"

#include <csignal>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "lua/bind/frame_names.h"
#include "lua/bind/loop_pause.h"
#include "lua/bind/recipe.h"
#include "lua/bind/run_loop.h"
#include "lua/bind/session.h"
#include "lua/state/args.h"
#include "lua/state/interruption.h"

namespace xrun {

namespace {

// How long an interruption waits for a function of C, which no coroutine can be suspended in.
constexpr double kCallbackPatienceS = 2;

// The functions that a failed call was given, by the names that hold them.
struct Names {
  std::vector<std::pair<LuaRef, std::string>> of_functions;
};

bool in_charge(lua_State* L) {
  const RecipeContext& context = recipe_context(L);
  const Session& session = session_of(L);
  return session.prompt_in_charge && L == context.thread && session.run != nullptr &&
         session.run->walking != nullptr;
}

std::shared_ptr<const ErrorReport> interruption_report(lua_State* L, int signal_number) {
  LuaState::clear_interrupt(SIGINT);
  clear_interrupt(SIGINT);
  auto report = std::make_shared<ErrorReport>();
  report->signal_number = signal_number;
  report->message = "interrupted";
  locate(L, 0, 0, *report);
  return report;
}

void note_pause(lua_State* L, std::shared_ptr<const ErrorReport> failure) {
  const auto& run = session_of(L).run;
  recipe_context(L).pause = std::make_shared<LoopPause>(
      LoopPause{run->walking, run, run->run().step(), std::move(failure)});
}

// The name in the frame that called which holds the function at index i; "" if none does.
std::string name_of(lua_State* L, const FrameNames& frame, int i) {
  for (const FrameName& one : frame.names()) {
    const StackGuard guard(L);
    if (frame.push(L, one.name) && lua_rawequal(L, -1, i) != 0) return one.name;
  }
  return "";
}

// Every function among the arguments, and in tables and tables of tables among them.
template <typename Each>
void each_function(lua_State* L, int i, int depth, const Each& each) {
  if (lua_isfunction(L, i)) return each(i);
  if (!lua_istable(L, i) || depth == 0) return;
  luaL_checkstack(L, LUA_MINSTACK, "no room for arguments");
  const int count = static_cast<int>(lua_objlen(L, i));
  for (int k = 1; k <= count; ++k) {
    lua_rawgeti(L, i, k);
    each_function(L, lua_gettop(L), depth - 1, each);
    lua_pop(L, 1);
  }
}

// The frame whose loop is walked, which the prompt assigns in too.
FrameNames loop_frame(lua_State* L) {
  const std::shared_ptr<RunLoop>& run = session_of(L).run;
  return FrameNames(L, run == nullptr ? nullptr : run->walking.get());
}

void note_names(lua_State* L, int first, int last) {
  Names& names = LuaState::of(L).service<Names>();
  names.of_functions.clear();
  const FrameNames frame = loop_frame(L);
  for (int i = first; i <= last; ++i) {
    each_function(L, i, 2, [&](int function) {
      const std::string name = name_of(L, frame, function);
      if (!name.empty()) names.of_functions.emplace_back(LuaRef(L, function), name);
    });
  }
}

// attempt(method, ...): true and its value; false if it failed and the recipe is to pause.
int attempt(lua_State* L) {
  const int last = lua_gettop(L);
  std::shared_ptr<const ErrorReport> failure;
  try {
    for (int i = 1; i <= last; ++i) lua_pushvalue(L, i);
    protected_call(L, last - 1, 1);
    LuaState::of(L).service<Names>().of_functions.clear();
    lua_pushboolean(L, 1);
    lua_insert(L, -2);
    return 2;
  } catch (const LuaError& error) {
    failure = error.shared_report();
  } catch (const Interrupted& stop) {
    if (stop.signal_number() != SIGINT) throw;
    failure = interruption_report(L, stop.signal_number());
  }
  lua_settop(L, last);
  note_names(L, 2, last);
  note_pause(L, std::move(failure));
  lua_pushboolean(L, 0);
  return 1;
}

// Pushes what is to stand for the function at index i: what its name holds now.
void push_renewed(lua_State* L, const FrameNames& frame, int i) {
  for (const auto& [function, name] : LuaState::of(L).service<Names>().of_functions) {
    function.push(L);
    const bool same = lua_rawequal(L, -1, i) != 0;
    lua_pop(L, 1);
    if (same && frame.push(L, name)) return;
  }
  lua_pushvalue(L, i);
}

// The objectives of the parts at index i, in place: adamw:step{ { batch, objective } }. The tables
// are the call's own.
void renew_parts(lua_State* L, const FrameNames& frame, int i) {
  const int top = lua_gettop(L);
  const int parts = static_cast<int>(lua_objlen(L, i));
  for (int k = 1; k <= parts; ++k, lua_settop(L, top)) {
    lua_rawgeti(L, i, k);
    if (!lua_istable(L, top + 1)) continue;
    lua_rawgeti(L, top + 1, 2);
    if (!lua_isfunction(L, top + 2)) continue;
    push_renewed(L, frame, top + 2);
    lua_rawseti(L, top + 1, 2);
  }
}

// renewed(...): the arguments with functions replaced by what their names hold now.
int renewed(lua_State* L) {
  const int count = lua_gettop(L);
  const FrameNames frame = loop_frame(L);
  for (int i = 1; i <= count; ++i) {
    if (lua_isfunction(L, i)) {
      push_renewed(L, frame, i);
      lua_replace(L, i);
    } else if (lua_istable(L, i)) {
      renew_parts(L, frame, i);
    }
  }
  return count;
}

int push_in_charge(lua_State* L) {
  lua_pushboolean(L, in_charge(L));
  return 1;
}

int enter_plain(lua_State* L, void* function) {
  return reinterpret_cast<lua_CFunction>(function)(L);
}

void push_part(lua_State* L, const char* name, lua_CFunction function) {
  push_binding(L, register_binding({.entry = {.name = name,
                                              .kind = DocKind::kMetamethod,
                                              .parameters = {{"...", "any"}},
                                              .results = {{"any", "..."}},
                                              .doc = "Calls a method again at a prompt."},
                                    .function = reinterpret_cast<void*>(function),
                                    .invoke = enter_plain}));
}

// In Lua, so that the recipe's coroutine can be suspended in the call.
constexpr std::string_view kRetried =
    "local method, in_charge, attempt, renewed, yield = ... "
    "local function call(...) "
    "if not in_charge() then return method(...) end "
    "local done, result = attempt(method, ...) "
    "if done then return result end "
    "yield() "
    "return call(renewed(...)) end "
    "return call";

int yield_nothing(lua_State* L) { return lua_yield(L, 0); }

}  // namespace

void make_retried(lua_State* L, const ClassInfo* info, const char* method) {
  const StackGuard guard(L);
  push_methods(L, info);
  luaL_loadbuffer(L, kRetried.data(), kRetried.size(), "=retried");
  lua_pushstring(L, method);
  lua_rawget(L, -3);
  push_part(L, "prompt.in_charge", push_in_charge);
  push_part(L, "prompt.attempt", attempt);
  push_part(L, "prompt.renewed", renewed);
  lua_pushcfunction(L, yield_nothing);
  lua_call(L, 5, 1);
  lua_pushstring(L, method);
  lua_insert(L, -2);
  lua_rawset(L, -3);
}

void pause_on_interruption(LuaState& state) {
  state.may_suspend = [](lua_State* L, int signal_number) {
    if (signal_number != SIGINT || !in_charge(L)) return Suspension::kNone;
    // Inside an objective, say, which C++ has called: its caller stops there.
    const size_t entered = LuaState::of(L).service<EnteredFunctions>().stack.size();
    if (entered != recipe_context(L).entered) return Suspension::kNone;
    if (lua_isyieldable(L) != 0) return Suspension::kNow;
    // A comparator of table.sort, say: it is let finish, but not forever.
    const bool waits = LuaState::interrupt_age_s() < kCallbackPatienceS;
    return waits ? Suspension::kSoon : Suspension::kNone;
  };
  state.suspending = [](lua_State* L, int signal_number) {
    note_pause(L, interruption_report(L, signal_number));
  };
}

}  // namespace xrun
