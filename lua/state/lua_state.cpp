// Invariant: no C++ exception leaves a binding and no Lua error unwinds through C++ code that
// catches it. Lua enters C++ only by enter_binding, C++ enters Lua only by protected_call. Lua
// errors are foreign exceptions here, so nothing in this file catches (...).

#include "lua/state/lua_state.h"

#include <c10/util/Exception.h>
#include <luajit.h>

#include <atomic>
#include <cerrno>
#include <mutex>

#include "core/base/activity.h"
#include "core/base/file.h"
#include "core/base/file_access.h"
#include "core/data/rows/data_fault.h"
#include "lua/state/allowed_globals.h"
#include "lua/state/class.h"
#include "lua/state/interruption.h"
#include "lua/state/line_profile.h"
#include "lua/state/outside_error.h"
#include "lua/state/stack_guard.h"

namespace xrun {
namespace {

// Addresses as registry keys: no name of a recipe or library can collide with them.
const char kStateKey = 0;   // registry[&kStateKey] = LuaState*
const char kModuleKey = 0;  // registry[&kModuleKey] = the module table

// Flags of the report, by the type of the error.
struct FailureKind {
  bool usage = false, data = false, outside = false;
  std::string missing_field = {};
};

// Leaves the Lua error value of a failed binding on the stack.
[[gnu::noinline]] void push_failure(lua_State* L, const Binding& binding, int arguments,
                                    std::string_view message, const FailureKind& kind = {}) {
  // The report needs room on a stack that may be full.
  luaL_checkstack(L, LUA_MINSTACK, "no room for an error");
  auto report = std::make_shared<ErrorReport>();
  // A missing field names its type itself; "Policy.__index: Policy has no ..." would say it twice.
  if (!kind.outside && !binding.entry.name.ends_with(".__index")) {
    constexpr std::string_view kVerb = "repl.";  // a verb of the prompt is typed without it
    const std::string& name = binding.entry.name;
    report->operation = name.starts_with(kVerb) ? name.substr(kVerb.size()) : name;
  }
  report->usage = kind.usage;
  report->outside = kind.outside;
  report->data = kind.data;
  report->missing_field = kind.missing_field;
  set_message(*report, message);
  if (!kind.outside) locate(L, 0, arguments, *report);
  push_error(L, std::move(report));
}

int panic(lua_State* L) {
  // Only reached by an error outside every protected call, which is a defect of the bindings.
  const char* message = lua_tostring(L, -1);
  throw Error(fmt::format("Lua error outside a protected call: {}",
                          message == nullptr ? "(no message)" : message));
}

// Pushes the table that a dotted name lives in and returns the last part of the name.
std::string push_home(lua_State* L, const LuaState& state, std::string_view name) {
  state.push_module(L);
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return std::string(name);
  const std::string outer(name.substr(0, dot));
  lua_pushlstring(L, outer.data(), outer.size());
  lua_rawget(L, -2);
  // The outer table is made at its first member.
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushlstring(L, outer.data(), outer.size());
    lua_pushvalue(L, -2);
    lua_rawset(L, -4);
  }
  lua_remove(L, -2);
  return std::string(name.substr(dot + 1));
}

// table[name] = value for the table below the value on top; pops the value. Raw, because the module
// refuses new names from recipes.
void raw_set(lua_State* L, const std::string& name) {
  lua_pushlstring(L, name.data(), name.size());
  lua_insert(L, -2);
  lua_rawset(L, -3);
}

int call_plain(lua_State* L, void* function) {
  return reinterpret_cast<lua_CFunction>(function)(L);
}

}  // namespace

LuaState::LuaState(const LuaOptions& options) : main_(luaL_newstate()) {
  XRUN_CHECK(main_ != nullptr, "out of memory: no Lua state could be opened");
  lua_atpanic(main_, panic);
  luaL_openlibs(main_);
  // Makes the head of the list of free references, so that ~LuaRef allocates nothing: it must not
  // throw where no memory is left.
  lua_pushboolean(main_, 1);
  luaL_unref(main_, LUA_REGISTRYINDEX, luaL_ref(main_, LUA_REGISTRYINDEX));
  // Compiled code checks no hooks, so an endless loop could not be interrupted; --jit accepts that.
  if (!options.jit || file_access_limited()) {
    luaJIT_setmode(main_, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
  }
  lua_pushlightuserdata(main_, const_cast<char*>(&kStateKey));
  lua_pushlightuserdata(main_, this);
  lua_rawset(main_, LUA_REGISTRYINDEX);
  lua_pushlightuserdata(main_, const_cast<char*>(&kModuleKey));
  lua_newtable(main_);
  lua_pushvalue(main_, -1);
  lua_setfield(main_, LUA_REGISTRYINDEX, "xrun.module");  // readable in a debugger
  lua_rawset(main_, LUA_REGISTRYINDEX);
  open_error_class(main_);
  guard_xpcall(main_);
  guard_library(main_);
  keep_dump(main_);
  if (file_access_limited()) limit_globals(main_, LuaRights::kUntrusted);
}

LuaState::~LuaState() {
  // First: a signal may arrive while the state is closing.
  forget_interruptible(main_);
  lua_close(main_);
  main_ = nullptr;
  // After lua_close, whose finalisers still use the services.
  services_.clear();
}

LuaState& LuaState::of(lua_State* L) {
  lua_pushlightuserdata(L, const_cast<char*>(&kStateKey));
  lua_rawget(L, LUA_REGISTRYINDEX);
  // Every state has it: the constructor sets it before any code runs.
  auto* state = static_cast<LuaState*>(lua_touserdata(L, -1));
  lua_pop(L, 1);
  return *state;
}

size_t LuaState::next_service_id() {
  static std::atomic<size_t> next{0};
  return next++;
}

void LuaState::push_module(lua_State* L) const {
  lua_pushlightuserdata(L, const_cast<char*>(&kModuleKey));
  lua_rawget(L, LUA_REGISTRYINDEX);
}

void LuaState::function(std::string_view name, std::vector<LuaParameter> parameters,
                        std::vector<LuaResult> results, std::string_view doc,
                        lua_CFunction function) {
  const StackGuard guard(main_);
  const std::string last = push_home(main_, *this, name);
  push_function(main_,
                {.name = "xrun." + std::string(name),
                 .kind = DocKind::kFunction,
                 .parameters = std::move(parameters),
                 .results = std::move(results),
                 .doc = std::string(doc)},
                function);
  raw_set(main_, last);
}

void LuaState::value(std::string_view name, std::string_view type, std::string_view doc) {
  register_doc({.name = "xrun." + std::string(name),
                .kind = DocKind::kValue,
                .results = {type},
                .doc = std::string(doc)});
  const std::string last = push_home(main_, *this, name);
  // Below the table, which was pushed after it.
  lua_insert(main_, -2);
  raw_set(main_, last);
  lua_pop(main_, 1);
}

int enter_binding(lua_State* L) {
  const auto& binding = *static_cast<const Binding*>(lua_touserdata(L, lua_upvalueindex(1)));
  const int arguments = lua_gettop(L);
  try {
    // Before anything that needs stack itself.
    check_c_stack();
    // If the state can be suspended, the hook opens a prompt instead.
    if (LuaState::interrupt_pending() != 0 && suspension(L) == Suspension::kNone) [[unlikely]]
      check_interrupt(L);
    const ProfiledCall call(L);
    const EngineScope engine;
    return binding.invoke(L, binding.function);
  } catch (const LuaError& error) {
    push_error(L, error.shared_report());
  } catch (const Interrupted&) {
    push_interruption(L);
  } catch (const UsageError& error) {
    push_failure(L, binding, arguments, error.what(), {.usage = true});
  } catch (const OutsideError& error) {
    push_failure(L, binding, arguments, error.what(), {.usage = error.usage(), .outside = true});
  } catch (const DataError& error) {
    push_failure(L, binding, arguments, error.what(), {.data = true});
  } catch (const FileError& error) {
    // A full disk is not the fault of a line.
    const bool full = error.code() == ENOSPC || error.code() == EDQUOT;
    push_failure(L, binding, arguments, error.what(), {.outside = full});
  } catch (const MissingField& error) {
    push_failure(L, binding, arguments, error.what(), {.missing_field = error.name()});
  } catch (const c10::Error& error) {
    push_failure(L, binding, arguments, error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    push_failure(L, binding, arguments, "out of memory");
  } catch (const std::exception& error) {
    push_failure(L, binding, arguments, error.what());
  }
  // Outside the try block: lua_error unwinds like longjmp, and all C++ objects of this frame are
  // gone here.
  return lua_error(L);
}

void push_binding(lua_State* L, const Binding* binding, int n) {
  lua_pushlightuserdata(L, const_cast<Binding*>(binding));
  // Below the n upvalues: the binding must be upvalue 1.
  lua_insert(L, -1 - n);
  lua_pushcclosure(L, enter_binding, n + 1);
}

void push_function(lua_State* L, DocEntry entry, lua_CFunction function, int n) {
  const Binding* binding = register_binding({.entry = std::move(entry),
                                             .function = reinterpret_cast<void*>(function),
                                             .invoke = call_plain});
  push_binding(L, binding, n);
}

namespace {

// Records the function at the index while it runs.
class Entered {
 public:
  Entered(lua_State* L, int function) : functions_(LuaState::of(L).service<EnteredFunctions>()) {
    EnteredFunction entered;
    // Only Lua functions have lines.
    if (lua_isfunction(L, function) && lua_iscfunction(L, function) == 0) {
      lua_Debug about{};
      lua_pushvalue(L, function);
      lua_getinfo(L, ">S", &about);
      entered = {about.source, about.linedefined, about.lastlinedefined};
    }
    functions_.stack.push_back(std::move(entered));
  }
  ~Entered() {
    // The backward of a step runs after its objective has left (throw_at_objective).
    functions_.last = std::move(functions_.stack.back());
    functions_.stack.pop_back();
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  EnteredFunctions& functions_;
};

}  // namespace

void protected_call(lua_State* L, int arguments, int results) {
  const int function = lua_gettop(L) - arguments;
  const Entered entered(L, function);
  const OwnCall own(L);
  const LuaScope lua;
  lua_pushcfunction(L, message_handler);
  // Below the function: pcall takes the handler by index.
  lua_insert(L, function);
  const int status = lua_pcall(L, arguments, results, function);
  lua_remove(L, function);
  if (status == 0) return;
  auto report = report_of(L, -1);
  // Pops the error value and whatever else the call left.
  lua_settop(L, function - 1);
  // Not a failure: nothing on the way up may treat it as one.
  if (report->signal_number != 0) throw Interrupted(report->signal_number);
  throw LuaError(std::move(report));
}

void push_builtin_text(lua_State* L, std::string_view text, const std::string& chunk) {
  if (luaL_loadbuffer(L, text.data(), text.size(), chunk.c_str()) == 0) return;
  const char* message = lua_tostring(L, -1);
  const std::string reason = message == nullptr ? "(no message)" : message;
  lua_pop(L, 1);
  throw Error(fmt::format("{}: this built-in text cannot be loaded: {}", chunk.substr(1), reason));
}

LuaRef::LuaRef(lua_State* L, int i) : state_(&LuaState::of(L)) {
  lua_pushvalue(L, i);
  ref_ = luaL_ref(L, LUA_REGISTRYINDEX);
}

LuaRef::~LuaRef() {
  // A reference may outlive its state; then there is nothing to release.
  if (state_ != nullptr && state_->get() != nullptr) {
    luaL_unref(state_->get(), LUA_REGISTRYINDEX, ref_);
  }
}

LuaRef::LuaRef(LuaRef&& other) noexcept
    : state_(std::exchange(other.state_, nullptr)), ref_(std::exchange(other.ref_, LUA_NOREF)) {}

LuaRef& LuaRef::operator=(LuaRef&& other) noexcept {
  std::swap(state_, other.state_);
  std::swap(ref_, other.ref_);
  return *this;
}

void LuaRef::push(lua_State* L) const {
  if (state_ == nullptr) return lua_pushnil(L);
  lua_rawgeti(L, LUA_REGISTRYINDEX, ref_);
}

}  // namespace xrun
