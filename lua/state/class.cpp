// A class in a state is one registry entry, keyed by the address of its ClassInfo:
//   { metatable, methods, getters, setters }  (1-based list)
// __index looks into methods, then calls a getter, then the fallback, then raises did-you-mean.

#include "lua/state/class.h"

#include <algorithm>
#include <mutex>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "lua/state/args.h"

namespace xrun {
namespace {

// Every ClassInfo ever registered: a userdata of ours begins with one of these addresses.
struct KnownClasses {
  std::mutex mutex;
  std::vector<const ClassInfo*> infos;
};

KnownClasses& known_classes() {
  // Never destroyed: a state that outlives main still asks for its classes.
  static KnownClasses* const instance = new KnownClasses;
  return *instance;
}

// tables: the upvalues with the known names.
[[noreturn]] void throw_no_member(lua_State* L, const char* verb,
                                  std::initializer_list<int> tables) {
  std::vector<std::string> names;
  for (int table : tables) add_names(L, lua_upvalueindex(table), names);
  std::sort(names.begin(), names.end());
  const std::string key =
      lua_type(L, 2) == LUA_TSTRING ? read_string(L, 2, nullptr) : describe_value(L, 2);
  const std::string near = nearest_name(key, names);
  throw Error(fmt::format("{} has no {} `{}`{}", type_name(L, 1), verb, key,
                          near.empty() ? "" : "\nhint: did you mean `" + near + "`?"));
}

// upvalues: binding, methods, getters, setters
int index_object(lua_State* L, void*) {
  // Only the object and the key: the upvalues hold everything else.
  lua_settop(L, 2);
  lua_pushvalue(L, 2);
  // Methods first: they are by far the most frequent.
  lua_rawget(L, lua_upvalueindex(2));
  if (!lua_isnil(L, -1)) return 1;
  lua_settop(L, 2);
  lua_pushvalue(L, 2);
  lua_rawget(L, lua_upvalueindex(3));
  // A getter is stored as its Binding, not as a Lua function: it is invoked directly.
  if (auto* getter = static_cast<const Binding*>(lua_touserdata(L, -1))) {
    lua_settop(L, 2);
    return getter->invoke(L, getter->function);
  }
  lua_settop(L, 2);
  // The fallback of a class that has members beyond its lists, as Tensor has operators.
  // "\1get" lives among the setters, under a key that no recipe can write.
  lua_pushliteral(L, "\1get");
  lua_rawget(L, lua_upvalueindex(4));
  const auto* fallback = static_cast<const Binding*>(lua_touserdata(L, -1));
  lua_settop(L, 2);
  if (fallback != nullptr) {
    // 0 results: the fallback does not know the member either.
    if (const int results = fallback->invoke(L, fallback->function); results > 0) return results;
  }
  throw_no_member(L, "method or property", {2, 3});
}

int newindex_object(lua_State* L, void*) {
  lua_settop(L, 3);
  lua_pushvalue(L, 2);
  lua_rawget(L, lua_upvalueindex(4));
  const auto* setter = static_cast<const Binding*>(lua_touserdata(L, -1));
  lua_settop(L, 3);
  if (setter != nullptr) return setter->invoke(L, setter->function);
  lua_pushvalue(L, 2);
  lua_rawget(L, lua_upvalueindex(3));
  if (auto* getter = static_cast<const Binding*>(lua_touserdata(L, -1))) {
    // The table itself cannot be replaced, its fields can.
    const bool table = getter->entry.results.front().type == "table";
    throw Error(fmt::format("`{}` of {} is read-only{}", lua_tostring(L, 2),
                            with_article(type_name(L, 1)),
                            table ? "\nhint: assign to the fields of the table that it is" : ""));
  }
  lua_settop(L, 3);
  lua_pushliteral(L, "\1set");
  lua_rawget(L, lua_upvalueindex(4));
  const auto* fallback = static_cast<const Binding*>(lua_touserdata(L, -1));
  lua_settop(L, 3);
  if (fallback != nullptr && fallback->invoke(L, fallback->function) > 0) return 0;
  throw_no_member(L, "property that can be set:", {4});
}

int object_tostring(lua_State* L) {
  const std::string text = describe_value(L, 1);
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

void push_access(lua_State* L, const std::string& name, const char* event, const char* doc,
                 int (*invoke)(lua_State*, void*)) {
  const Binding* binding = register_binding({.entry = {.name = name + event,
                                                       .kind = DocKind::kMetamethod,
                                                       .parameters = {{"name", "string"}},
                                                       .doc = doc},
                                             .function = nullptr,
                                             .invoke = invoke});
  // The three tables are on top of the stack, in the order methods, getters, setters.
  // Copies: the tables themselves stay for the caller.
  for (int i = 0; i < 3; ++i) lua_pushvalue(L, -3);
  push_binding(L, binding, 3);
}

}  // namespace

void add_names(lua_State* L, int table, std::vector<std::string>& names) {
  lua_pushnil(L);
  while (lua_next(L, table) != 0) {
    lua_pop(L, 1);
    // \1 marks entries that no recipe can name: the fallbacks.
    if (lua_type(L, -1) == LUA_TSTRING && lua_tostring(L, -1)[0] != '\1') {
      names.emplace_back(lua_tostring(L, -1));
    }
  }
}

const ClassInfo* class_of(lua_State* L, int i) {
  // Userdata of other libraries (io files) may be smaller than our header, or begin with anything.
  if (lua_type(L, i) != LUA_TUSERDATA || lua_objlen(L, i) < sizeof(ObjectHeader)) return nullptr;
  const ClassInfo* info = static_cast<ObjectHeader*>(lua_touserdata(L, i))->info;
  KnownClasses& known = known_classes();
  const std::lock_guard lock(known.mutex);
  const bool ours = std::find(known.infos.begin(), known.infos.end(), info) != known.infos.end();
  return ours ? info : nullptr;
}

std::string type_name(lua_State* L, int i) {
  if (lua_type(L, i) == LUA_TNONE) return "nothing";
  if (const ClassInfo* info = class_of(L, i)) return info->name;
  return lua_typename(L, lua_type(L, i));
}

std::string with_article(const std::string& name) {
  return (std::string_view("AEIOU").find(name[0]) < 5 ? "an " : "a ") + name;
}

ClassTable::ClassTable(lua_State* L, ClassInfo* info, std::string_view name, std::string_view doc)
    : state_(L), info_(info), name_(name) {
  // A module that adds members to the class of another one gives no doc.
  if (!doc.empty()) {
    register_doc({.name = name_, .kind = DocKind::kClass, .doc = std::string(doc)});
  }
  {
    KnownClasses& known = known_classes();
    const std::lock_guard lock(known.mutex);
    if (info->name == nullptr) {
      // Never freed: ClassInfo is static and its name is read without a lock.
      info->name = (new std::string(name_))->c_str();
      known.infos.push_back(info);
    }
  }
  const StackGuard guard(L);
  lua_pushlightuserdata(L, info);
  lua_rawget(L, LUA_REGISTRYINDEX);
  // Registered in this state already; several modules may add members to one class.
  if (!lua_isnil(L, -1)) return;
  lua_createtable(L, 4, 0);
  const int entry = lua_gettop(L);
  lua_newtable(L);
  const int metatable = lua_gettop(L);
  // The slots of the list, 1-based in Lua.
  for (int slot = kMethods; slot <= kSetters; ++slot) {
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawseti(L, entry, slot + 1);
  }
  push_access(L, name_, ".__index", "Reads a method, a property or a field.", index_object);
  lua_setfield(L, metatable, "__index");
  push_access(L, name_, ".__newindex", "Sets a property or a field.", newindex_object);
  lua_setfield(L, metatable, "__newindex");
  lua_pushlstring(L, name_.data(), name_.size());
  lua_pushvalue(L, -1);
  lua_setfield(L, metatable, "__name");
  lua_setfield(L, metatable, "__metatable");  // what getmetatable gives; hides the table itself
  lua_pushcfunction(L, object_tostring);
  lua_setfield(L, metatable, "__tostring");
  lua_pushvalue(L, metatable);
  lua_rawseti(L, entry, kMetatable + 1);
  lua_pushlightuserdata(L, info);
  lua_pushvalue(L, entry);
  lua_rawset(L, LUA_REGISTRYINDEX);
}

void ClassTable::push_slot(ClassSlot slot) const {
  lua_pushlightuserdata(state_, const_cast<ClassInfo*>(info_));
  lua_rawget(state_, LUA_REGISTRYINDEX);
  lua_rawgeti(state_, -1, slot + 1);
  lua_remove(state_, -2);
}

void ClassTable::add(DocKind kind, std::string_view name, std::vector<LuaParameter> parameters,
                     std::vector<LuaResult> results, std::string_view doc, void* function,
                     int (*invoke)(lua_State*, void*)) {
  const bool method = kind == DocKind::kMethod;
  const Binding* binding =
      register_binding({.entry = {.name = name_ + (method ? ":" : ".") + std::string(name),
                                  .kind = kind,
                                  .parameters = std::move(parameters),
                                  .results = std::move(results),
                                  .doc = std::string(doc)},
                        .function = function,
                        .invoke = invoke});
  push_slot(method ? kMethods : kGetters);
  lua_pushlstring(state_, name.data(), name.size());
  if (method) {
    push_binding(state_, binding);
  } else {
    lua_pushlightuserdata(state_, const_cast<Binding*>(binding));
  }
  lua_rawset(state_, -3);
  lua_pop(state_, 1);
}

void ClassTable::add_setter(std::string_view name, void* function,
                            int (*invoke)(lua_State*, void*)) {
  const Binding* binding =
      register_binding({.entry = {.name = name_ + ".=" + std::string(name),
                                  .kind = DocKind::kMetamethod,
                                  .parameters = {{"name", "string"}, {"value", "any"}},
                                  .doc = "Sets the property."},
                        .function = function,
                        .invoke = invoke});
  push_slot(kSetters);
  lua_pushlstring(state_, name.data(), name.size());
  lua_pushlightuserdata(state_, const_cast<Binding*>(binding));
  lua_rawset(state_, -3);
  lua_pop(state_, 1);
}

void ClassTable::add_metamethod(std::string_view name, std::vector<LuaParameter> parameters,
                                std::vector<LuaResult> results, std::string_view doc,
                                void* function, int (*invoke)(lua_State*, void*)) {
  const Binding* binding = register_binding({.entry = {.name = name_ + "." + std::string(name),
                                                       .kind = DocKind::kMetamethod,
                                                       .parameters = std::move(parameters),
                                                       .results = std::move(results),
                                                       .doc = std::string(doc)},
                                             .function = function,
                                             .invoke = invoke});
  push_slot(kMetatable);
  lua_pushlstring(state_, name.data(), name.size());
  push_binding(state_, binding);
  lua_rawset(state_, -3);
  lua_pop(state_, 1);
}

void ClassTable::add_raw(std::string_view name, lua_CFunction function) {
  push_slot(kMetatable);
  lua_pushlstring(state_, name.data(), name.size());
  lua_pushcfunction(state_, function);
  lua_rawset(state_, -3);
  lua_pop(state_, 1);
}

void push_methods(lua_State* L, const ClassInfo* info) {
  lua_pushlightuserdata(L, const_cast<ClassInfo*>(info));
  lua_rawget(L, LUA_REGISTRYINDEX);
  // 2: the methods, 1-based.
  lua_rawgeti(L, -1, 2);
  lua_remove(L, -2);
}

void set_class(lua_State* L, const ClassInfo* info) {
  lua_pushlightuserdata(L, const_cast<ClassInfo*>(info));
  lua_rawget(L, LUA_REGISTRYINDEX);
  // A worker state lacks most classes.
  XRUN_CHECK(lua_istable(L, -1), "class {} is not registered in this Lua state",
             info->name == nullptr ? "(unnamed)" : info->name);
  // 1: the metatable, 1-based.
  lua_rawgeti(L, -1, 1);
  lua_setmetatable(L, -3);
  lua_pop(L, 1);
}

void throw_not_a(lua_State* L, int i, const ClassInfo* wanted, const char* what) {
  const std::string name = wanted->name == nullptr ? "an object" : wanted->name;
  // The right class, but object_at refused it: its pointer is gone.
  if (class_of(L, i) == wanted) {
    throw Error(fmt::format("this {} is closed: its contents were freed", name));
  }
  throw_argument(L, i, what, with_article(name));
}

}  // namespace xrun
