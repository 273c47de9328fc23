#pragma once
// C++ objects as Lua values: methods and properties, each with its documentation.
//
//   Class<Policy>(L, "Policy", "A model that can be trained, with its tokenizer.")
//       .method("logprob", {{"view", "View"}}, {{"Tensor", "[n]"}}, "Sums ...",
//               [](Policy& self, lua_State* L) {
//                 push(L, self.logprob(arg<View&>(L, 2, "view")));
//                 return 1;
//               })
//       .property("dir", "string", "The folder it came from.",
//                 [](Policy& self, lua_State* L) {
//                   push(L, self.dir().string());
//                   return 1;
//                 });
//   push(L, std::make_shared<Policy>(...));
//
// Objects are held by shared_ptr; two handles of one object are equal in Lua.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lua/state/lua_state.h"

namespace xrun {

// A class, identified by its address; one per C++ type.
struct ClassInfo {
  const char* name = nullptr;                             // set when the class is first registered
  std::string (*describe)(const void* object) = nullptr;  // object: the userdata's block
};
template <class T>
inline ClassInfo class_info;

// The head of a class's userdata.
struct ObjectHeader {
  const ClassInfo* info;
};
template <class T>
struct SharedObject : ObjectHeader {
  std::shared_ptr<T> value;  // null once finalised
};

// The class of the value at index i, or nullptr if it is not one of our objects.
const ClassInfo* class_of(lua_State* L, int i);
// The name of the type of the value at index i in error messages: "Policy", "nil", "number".
std::string type_name(lua_State* L, int i);
// "an Adamw", "a number".
std::string with_article(const std::string& name);

// The part of Class<T> that is independent of T.
class ClassTable {
 public:
  // Finds or makes the class in this state; several modules may add members to it. `doc` is empty
  // if another module documents the class.
  ClassTable(lua_State* L, ClassInfo* info, std::string_view name, std::string_view doc);

  void add(DocKind kind, std::string_view name, std::vector<LuaParameter> parameters,
           std::vector<LuaResult> results, std::string_view doc, void* function,
           int (*invoke)(lua_State*, void*));
  void add_setter(std::string_view name, void* function, int (*invoke)(lua_State*, void*));
  // A metamethod ("__len"); undocumented ones ("__gc") are plain C functions.
  void add_metamethod(std::string_view name, std::vector<LuaParameter> parameters,
                      std::vector<LuaResult> results, std::string_view doc, void* function,
                      int (*invoke)(lua_State*, void*));
  void add_raw(std::string_view name, lua_CFunction function);

 private:
  enum ClassSlot : int { kMetatable, kMethods, kGetters, kSetters };
  void push_slot(ClassSlot slot) const;

  lua_State* state_;
  const ClassInfo* info_;
  std::string name_;
};

// Sets the metatable of a class on the userdata on top of the stack. Throws Error if the class was
// never registered in this state.
void set_class(lua_State* L, const ClassInfo* info);

// Pushes the table of a class's methods. Methods that are found lazily may be added to it.
void push_methods(lua_State* L, const ClassInfo* info);

// Appends the names in a table that a recipe can use. `table` is an absolute or pseudo index.
void add_names(lua_State* L, int table, std::vector<std::string>& names);

// Throws Error: argument i is closed, or is of another class.
[[noreturn]] void throw_not_a(lua_State* L, int i, const ClassInfo* wanted, const char* what);

// The object at index i. Throws Error "what, got, wanted" if it has a different type or is closed.
template <class T>
std::shared_ptr<T>& object_at(lua_State* L, int i, const char* what = nullptr) {
  auto* object = static_cast<SharedObject<T>*>(lua_touserdata(L, i));
  const bool ours = object != nullptr && lua_type(L, i) == LUA_TUSERDATA &&
                    lua_objlen(L, i) == sizeof(SharedObject<T>) && object->info == &class_info<T>;
  if (!ours || !object->value) throw_not_a(L, i, &class_info<T>, what);
  return object->value;
}

// Pushes a handle of the object; a null pointer is nil.
template <class T>
void push(lua_State* L, std::shared_ptr<T> value) {
  if (!value) return lua_pushnil(L);
  void* block = lua_newuserdata(L, sizeof(SharedObject<T>));
  new (block) SharedObject<T>{{&class_info<T>}, std::move(value)};
  set_class(L, &class_info<T>);
}

// Registers C++ class T; see the top of the file. Functions are captureless lambdas or plain
// functions; `self` is argument 1, so the first argument of the caller has index 2.
template <class T>
class Class {
 public:
  using Method = int (*)(T& self, lua_State* L);
  // Answers names that are neither method nor property: pushes the value and returns 1, or 0 if
  // there is no such name. For fields whose names are data (a batch's columns).
  using Fallback = int (*)(T& self, const std::string& name, lua_State* L);

  Class(lua_State* L, std::string_view name, std::string_view doc)
      : table_(L, &class_info<T>, name, doc) {
    table_.add_raw("__gc", [](lua_State* L) {
      auto* object = static_cast<SharedObject<T>*>(lua_touserdata(L, 1));
      // The destructor may run Lua, which must find an empty handle.
      std::shared_ptr<T> last = std::move(object->value);
      return 0;
    });
    table_.add_raw("__eq", [](lua_State* L) {
      auto* a = static_cast<SharedObject<T>*>(lua_touserdata(L, 1));
      auto* b = static_cast<SharedObject<T>*>(lua_touserdata(L, 2));
      lua_pushboolean(L, a->info == b->info && a->value == b->value);
      return 1;
    });
  }

  Class& method(std::string_view name, std::vector<LuaParameter> parameters,
                std::vector<LuaResult> results, std::string_view doc, Method function) {
    table_.add(DocKind::kMethod, name, std::move(parameters), std::move(results), doc,
               erase(function), call_method);
    return *this;
  }
  // A property that is read as object.name, and written if `set` is given (the value has index 3).
  Class& property(std::string_view name, std::string_view type, std::string_view doc, Method get,
                  Method set = nullptr) {
    table_.add(DocKind::kProperty, name, {}, {type}, doc, erase(get), call_method);
    if (set != nullptr) table_.add_setter(name, erase(set), call_method);
    return *this;
  }
  // "__call", "__len" and the like; self is argument 1.
  Class& metamethod(std::string_view name, std::vector<LuaParameter> parameters,
                    std::vector<LuaResult> results, std::string_view doc, Method function) {
    table_.add_metamethod(name, std::move(parameters), std::move(results), doc, erase(function),
                          call_method);
    return *this;
  }
  Class& fallback(Fallback get, Fallback set = nullptr) {
    table_.add_setter("\1get", reinterpret_cast<void*>(get), call_fallback);
    if (set != nullptr) table_.add_setter("\1set", reinterpret_cast<void*>(set), call_fallback);
    return *this;
  }
  // Sets the text of tostring, which error messages also show beside the value's name.
  Class& tostring(std::string (*text)(const T&)) {
    text_of = text;
    class_info<T>.describe = [](const void* block) {
      const auto& value = static_cast<const SharedObject<T>*>(block)->value;
      return value ? text_of(*value) : std::string(class_info<T>.name) + " (closed)";
    };
    return *this;
  }

 private:
  static void* erase(Method function) { return reinterpret_cast<void*>(function); }
  static int call_method(lua_State* L, void* function) {
    const std::shared_ptr<T> self = object_at<T>(L, 1);  // outlives its handle
    return reinterpret_cast<Method>(function)(*self, L);
  }
  static int call_fallback(lua_State* L, void* function) {
    if (lua_type(L, 2) != LUA_TSTRING) return 0;
    const std::shared_ptr<T> self = object_at<T>(L, 1);
    return reinterpret_cast<Fallback>(function)(*self, std::string(string_at(L, 2)), L);
  }

  static inline std::string (*text_of)(const T&) = nullptr;
  ClassTable table_;
};

}  // namespace xrun
