// A worker's result for a row may depend on the row alone, so that the bytes of a cache do not
// depend on threads or runs: files, clocks, random numbers, addresses and the order of tables are
// hidden or fixed.

#include "lua/state/worker_function.h"

#include <utility>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/interrupt.h"
#include "lua/state/allowed_globals.h"
#include "lua/state/args.h"
#include "lua/state/error_report.h"
#include "lua/state/lua_state.h"
#include "lua/state/source_texts.h"

namespace xrun {

namespace {

constexpr int kPollEvery = 10000;  // instructions between two polls of the interrupt flag

int append_code(lua_State*, const void* bytes, size_t size, void* out) {
  static_cast<std::string*>(out)->append(static_cast<const char*>(bytes), size);
  return 0;
}

void stop_if_interrupted(lua_State* L, lua_Debug*) {
  if (!interrupt_requested()) return;
  // Raised again at each instruction from here on, so that a pcall cannot swallow it.
  lua_sethook(L, stop_if_interrupted, LUA_MASKCOUNT, 1);
  luaL_error(L, "interrupted");
}

// Returns a digest of the code without its line numbers: it tells apart two functions on one line,
// and a comment above a function does not change it.
std::string stripped_digest(lua_State* L, int i) {
  const StackGuard guard(L);
  // string.dump, since lua_dump cannot strip debug information.
  push_dump(L);
  lua_pushvalue(L, i);
  lua_pushboolean(L, 1);  // strip
  protected_call(L, 2, 1);
  size_t size = 0;
  const char* code = lua_tolstring(L, -1, &size);
  return hash_hex(std::string_view(code, size));
}

struct WorkerRefusal {
  bool noted = false;
};

int note_refusal(lua_State* L) {
  note_worker_refusal(L);
  return 0;
}

// Closes the globals of a worker state. Its argument is called before each error about something
// that the state lacks.
constexpr const char* kStrict = R"(
local refused = ...
math.random, math.randomseed = nil, nil
local raw_next, type, sort, select, unpack = next, type, table.sort, select, unpack
local error, pcall = error, pcall
local raw_tostring, raw_format, find, gsub = tostring, string.format, string.find, string.gsub
local function refuse(message, level)
  refused()
  error(message, level + 1)
end
-- The text of a table or a function is its address, which differs in every state.
local function text_of(value)
  local text = raw_tostring(value)
  if type(value) ~= "string" and find(text, "^%a+: 0x") then
    refuse("a " .. type(value) .. " has no text that is the same in every run", 3)
  end
  return text
end
function tostring(value) return (text_of(value)) end
function string.format(form, ...)
  local is_text = type(form) == "string"
  if is_text and find(form, "p", 1, true) and find(gsub(form, "%%%%", ""), "%%[-+ #%d.]*p") then
    refuse("format: \"%p\" writes an address, which differs in every run", 2)
  end
  local values, count = { ... }, select("#", ...)
  for i = 1, count do
    local kind = type(values[i])
    if kind ~= "number" and kind ~= "string" then
      local text = text_of(values[i])
      if kind ~= "boolean" and kind ~= "nil" then values[i] = text end
    end
  end
  local ok, text = pcall(raw_format, form, unpack(values, 1, count))
  if not ok then error((gsub(text, "'%?'", "'format'")), 2) end
  return text
end
local function before(a, b)
  local kind = type(a)
  if kind ~= type(b) then return kind < type(b) end
  if kind == "number" or kind == "string" then return a < b end
  if kind == "boolean" then return b and not a end
  refuse("keys of a table that are " .. kind .. "s have no order", 5)
end
local function sorted_keys(t)
  local keys = {}
  for key in raw_next, t do keys[#keys + 1] = key end
  sort(keys, before)
  return keys
end
function pairs(t)
  local keys, i = sorted_keys(t), 0
  return function()
    i = i + 1
    if keys[i] ~= nil then return keys[i], t[keys[i]] end
  end
end
function next(t, key)
  local keys, at = sorted_keys(t), 1
  while key ~= nil and keys[at] ~= nil and keys[at] ~= key do at = at + 1 end
  if key ~= nil then at = at + 1 end
  return keys[at], t[keys[at] == nil and "" or keys[at]]
end
getmetatable = nil
for _, name in ipairs { "string", "table", "math", "bit" } do
  local library = _G[name]
  _G[name] = setmetatable({}, {
    __index = library,
    __newindex = function() refuse("a function over rows may not change a library", 2) end,
    __metatable = false,
  })
end
setmetatable(_G, {
  __index = function(_, name)
    refuse("there is no `" .. tostring(name) .. "` here: a function over rows sees its " ..
           "arguments and Lua's own string, table and math", 2)
  end,
  __newindex = function(_, name)
    refuse("a function over rows may not set the global `" .. tostring(name) .. "`; declare it local", 2)
  end,
  __metatable = false,
})
)";

}  // namespace

bool take_worker_refusal(lua_State* L) {
  return std::exchange(LuaState::of(L).service<WorkerRefusal>().noted, false);
}
void note_worker_refusal(lua_State* L) { LuaState::of(L).service<WorkerRefusal>().noted = true; }

WorkerFunction::WorkerFunction(lua_State* L, int i, std::string what, WorkerUpvalues upvalues)
    : what_(std::move(what)) {
  XRUN_CHECK(lua_isfunction(L, i) && !lua_iscfunction(L, i), "{}: got {}, wanted a Lua function",
             what_, describe_value(L, i));
  lua_Debug about{};
  // ">" pops the function and "S" asks for its source.
  lua_pushvalue(L, i);
  lua_getinfo(L, ">S", &about);
  chunk_ = about.source;
  // Every upvalue is refused: its value would have to be copied into each worker and into the key.
  const char* name = upvalues == WorkerUpvalues::kRefused ? lua_getupvalue(L, i, 1) : nullptr;
  if (name != nullptr) {
    const std::string upvalue = name;
    lua_pop(L, 1);
    throw Error(fmt::format(
        "{} ({}:{}) uses `{}`, a local from outside: it runs on other threads and sees its "
        "arguments alone; write the value into the function",
        what_, about.short_src, about.linedefined, upvalue));
  }
  // The lines are for people; the digest also covers the rest of the code.
  for (int line = about.linedefined; line <= about.lastlinedefined; ++line) {
    source_ += source_line(L, chunk_, line) + "\n";
  }
  const StackGuard guard(L);
  lua_pushvalue(L, i);
  // Bytecode with its line numbers, for errors in the worker.
  XRUN_CHECK(lua_dump(L, append_code, &code_) == 0, "{}: cannot be copied", what_);
  source_ += "code " + stripped_digest(L, i);
}

void WorkerFunction::push(lua_State* L) const {
  XRUN_CHECK(luaL_loadbuffer(L, code_.data(), code_.size(), chunk_.c_str()) == 0,
             "{}: cannot be loaded: {}", what_, lua_tostring(L, -1));
}

std::unique_ptr<LuaState> open_worker_state() {
  auto state = std::make_unique<LuaState>();
  lua_State* L = *state;
  const StackGuard guard(L);
  // Before kStrict closes the globals.
  limit_globals(L, LuaRights::kWorker);
  lua_pushlightuserdata(L, nullptr);
  lua_setglobal(L, "null");  // in the lists of a row
  XRUN_CHECK(luaL_loadstring(L, kStrict) == 0, "a worker's globals: {}", lua_tostring(L, -1));
  push_function(L,
                {.name = "worker.refused",
                 .kind = DocKind::kMetamethod,
                 .doc = "Notes that code used what a worker state lacks."},
                note_refusal);
  protected_call(L, 1, 0);
  // Ctrl-C must end a function that loops without end.
  lua_sethook(L, stop_if_interrupted, LUA_MASKCOUNT, kPollEvery);
  return state;
}

}  // namespace xrun
