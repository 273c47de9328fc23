// Lists of what is allowed: a function that a newer LuaJIT adds is not offered until it is listed.
// Tables are emptied in place, since methods of strings find the table of `string` by their
// metatable. Userdata, and so __gc, cannot be made without newproxy.

#include "lua/state/allowed_globals.h"

#include <cstdio>
#include <string_view>

#include "core/base/error.h"
#include "core/console/terminal/shown_text.h"
#include "core/sandbox/print_limit.h"
#include "lua/state/args.h"
#include "lua/state/lua_state.h"

namespace xrun {

namespace {

struct AllowedNames {
  const char* library;  // "": the globals
  std::string_view both, untrusted;
};

// Separated and enclosed by blanks.
constexpr AllowedNames kAllowed[] = {
    {"",
     " _G _VERSION assert bit coroutine error getmetatable ipairs math next pairs pcall print "
     "rawequal rawget select setmetatable string table tonumber tostring type unpack xpcall ",
     " debug load loadstring os rawset "},
    {"string", " byte char find format gmatch gsub len lower match rep reverse sub upper ", ""},
    {"table", " concat foreach foreachi getn insert maxn move remove sort ", ""},
    {"math",
     " abs acos asin atan atan2 ceil cos cosh deg exp floor fmod frexp huge ldexp log log10 max "
     "min modf pi pow rad random randomseed sin sinh sqrt tan tanh ",
     ""},
    {"bit", " arshift band bnot bor bswap bxor lshift rol ror rshift tobit tohex ", ""},
    {"coroutine", " create isyieldable resume running status wrap yield ", ""},
    {"os", "", " clock date difftime time "},
    {"debug", "", " "},  // traceback writes the addresses of functions
};

// Globals of LuaJIT that other code may ask for: their absence is explained.
constexpr std::string_view kRemovedGlobals =
    " collectgarbage dofile ffi gcinfo getfenv io jit loadfile module newproxy package setfenv ";

constexpr const char* kDump = "xrun.dump";  // in the registry

bool has_word(std::string_view words, const std::string& word) {
  return words.find(" " + word + " ") != words.npos;
}

bool is_allowed(const AllowedNames& names, LuaRights rights, const std::string& name) {
  return has_word(names.both, name) ||
         (rights == LuaRights::kUntrusted && has_word(names.untrusted, name));
}

// Removes what is not allowed from the table on top of the stack.
void prune(lua_State* L, const AllowedNames& names, LuaRights rights) {
  const int table = lua_gettop(L);
  lua_pushnil(L);
  while (lua_next(L, table) != 0) {
    lua_pop(L, 1);
    const bool stays =
        lua_type(L, -1) == LUA_TSTRING && is_allowed(names, rights, lua_tostring(L, -1));
    if (stays) continue;
    // Setting a field that exists to nil is allowed while iterating.
    lua_pushvalue(L, -1);
    lua_pushnil(L);
    lua_rawset(L, table);
  }
}

std::string not_trusted(const std::string& name) {
  return fmt::format(
      "{} is not for a recipe that is not trusted\nhint: --trusted runs it without "
      "limits",
      name);
}

// ---- replacements

void push_replacement(lua_State* L, const char* name, lua_CFunction function, int upvalues = 0) {
  push_function(L,
                {.name = name,
                 .kind = DocKind::kMetamethod,
                 .parameters = {{"...", "any"}},
                 .results = {{"any", "..."}},
                 .doc = "Lua's own function, limited."},
                function, upvalues);
}

// Loads text, not bytecode. No chunk name begins with @, as those of files do.
int load_text(lua_State* L) {
  size_t size = 0;
  if (lua_type(L, 1) != LUA_TSTRING) throw_argument(L, 1, "chunk", "a string");
  const char* const text = lua_tolstring(L, 1, &size);
  std::string name = luaL_optstring(L, 2, "load");
  while (name.starts_with('@') || name.starts_with('=')) name.erase(0, 1);
  lua_settop(L, 4);
  if (luaL_loadbufferx(L, text, size, ("=" + name).c_str(), "t") != 0) {
    lua_pushnil(L);
    lua_insert(L, -2);
    return 2;
  }
  if (lua_istable(L, 4)) {
    lua_pushvalue(L, 4);
    lua_setfenv(L, -2);
  }
  return 1;
}

// Pushes the text of a value, without an address in it.
void push_text(lua_State* L, int i) {
  if (luaL_callmeta(L, i, "__tostring") != 0) {
    // string.format would write the address of another value.
    if (lua_isstring(L, -1) == 0) throw Error("__tostring returned no string");
    return;
  }
  switch (lua_type(L, i)) {
    case LUA_TNUMBER:
    case LUA_TSTRING:
      lua_pushvalue(L, i);
      lua_tostring(L, -1);  // converts the copy
      return;
    case LUA_TBOOLEAN: push(L, lua_toboolean(L, i) != 0 ? "true" : "false"); return;
    case LUA_TNIL: push(L, "nil"); return;
    case LUA_TLIGHTUSERDATA:
      if (lua_touserdata(L, i) == nullptr) {
        push(L, "userdata: NULL");
        return;
      }
      [[fallthrough]];
    default: push(L, std::string(luaL_typename(L, i)) + ": (address hidden)");
  }
}

int text_of(lua_State* L) {
  luaL_checkany(L, 1);
  push_text(L, 1);
  return 1;
}

bool writes_address(std::string_view form) {
  for (size_t at = 0; (at = form.find('%', at)) != form.npos; ++at) {
    at = form.find_first_not_of("-+ #0123456789.", at + 1);
    if (at == form.npos) return false;
    if (form[at] == 'p') return true;
  }
  return false;
}

// Upvalue 2 is string.format itself.
int format_text(lua_State* L) {
  const int count = lua_gettop(L);
  size_t size = 0;
  const char* const form = count > 0 ? lua_tolstring(L, 1, &size) : nullptr;
  if (form != nullptr && writes_address({form, size})) {
    throw Error(not_trusted("format: \"%p\", which writes an address,"));
  }
  for (int i = 2; i <= count; ++i) {
    if (lua_type(L, i) <= LUA_TBOOLEAN || lua_type(L, i) == LUA_TNUMBER ||
        lua_type(L, i) == LUA_TSTRING) {
      continue;
    }
    push_text(L, i);
    lua_replace(L, i);
  }
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_insert(L, 1);
  lua_call(L, count, 1);
  return 1;
}

// Escape sequences could write to the clipboard or hide lines of the terminal.
int print_shown(lua_State* L) {
  const int count = lua_gettop(L);
  for (int i = 1; i <= count; ++i) {
    push_text(L, i);
    size_t size = 0;
    const char* const text = lua_tolstring(L, -1, &size);
    if (!may_print(size)) {
      return luaL_error(L,
                        "the recipe printed more than %d MB; --limit-output MB allows more, and "
                        "--trusted any number",
                        static_cast<int>(printing_limit()));
    }
    const std::string shown = shown_text({text, size});
    if (i > 1) std::fputc('\t', stdout);
    std::fwrite(shown.data(), 1, shown.size(), stdout);
    lua_pop(L, 1);
  }
  std::fputc('\n', stdout);
  return 0;
}

// __index of a library: upvalue 2 is its name. Absent functions of Lua are explained; any other
// name is nil, as before.
int explain_removed(lua_State* L) {
  if (lua_type(L, 2) != LUA_TSTRING) return 0;
  const std::string library = lua_tostring(L, lua_upvalueindex(2)), name = lua_tostring(L, 2);
  for (const std::string_view removed :
       {" os execute exit getenv remove rename setlocale tmpname ", " string dump ",
        " debug debug getfenv gethook getinfo getlocal getmetatable getregistry getupvalue setfenv "
        "sethook setlocal setmetatable setupvalue traceback "
        "upvalueid upvaluejoin "}) {
    if (removed.starts_with(" " + library + " ") && has_word(removed, name)) {
      throw Error(not_trusted(library + "." + name));
    }
  }
  return 0;
}

void replace_functions(lua_State* L) {
  push_replacement(L, "_G.load", load_text);
  lua_pushvalue(L, -1);
  lua_setglobal(L, "load");
  lua_setglobal(L, "loadstring");
  push_replacement(L, "_G.tostring", text_of);
  lua_setglobal(L, "tostring");
  push_replacement(L, "_G.print", print_shown);
  lua_setglobal(L, "print");
  lua_getglobal(L, "string");
  lua_getfield(L, -1, "format");
  push_replacement(L, "_G.string.format", format_text, 1);
  lua_setfield(L, -2, "format");
  lua_pop(L, 1);
  for (const char* library : {"os", "debug", "string"}) {
    lua_getglobal(L, library);
    lua_newtable(L);
    push(L, library);
    push_replacement(L, (std::string(library) + ".__index").c_str(), explain_removed, 1);
    lua_setfield(L, -2, "__index");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
    lua_pop(L, 1);
  }
}

}  // namespace

void keep_dump(lua_State* L) {
  lua_getglobal(L, "string");
  lua_getfield(L, -1, "dump");
  lua_setfield(L, LUA_REGISTRYINDEX, kDump);
  lua_pop(L, 1);
}

void push_dump(lua_State* L) { lua_getfield(L, LUA_REGISTRYINDEX, kDump); }

void limit_globals(lua_State* L, LuaRights rights) {
  const StackGuard guard(L);
  // The modules that `require` finds are the libraries on the list.
  lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
  prune(L, kAllowed[0], rights);
  for (const AllowedNames& names : kAllowed) {
    lua_getglobal(L, *names.library == 0 ? "_G" : names.library);
    // A worker of an untrusted recipe comes here twice; its `os` is gone the second time.
    if (lua_istable(L, -1)) prune(L, names, rights);
    lua_pop(L, 1);
  }
  // The metatable that all strings share.
  lua_pushliteral(L, "");
  lua_getmetatable(L, -1);
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  if (rights == LuaRights::kUntrusted) replace_functions(L);
}

std::string removed_global_text(const std::string& name) {
  return has_word(kRemovedGlobals, name) ? not_trusted("`" + name + "`") : "";
}

}  // namespace xrun
