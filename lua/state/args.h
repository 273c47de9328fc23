#pragma once
// Typed reads of arguments, whose errors say what, got and wanted, and pushes of results.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/json.h"
#include "lua/state/class.h"

namespace at {
class Tensor;
}

namespace xrun {

struct LuaParameter;

// Throws Error "argument 2 (view): got nil, wanted a View". `what` names the argument or is null.
[[noreturn]] void throw_argument(lua_State* L, int i, const char* what, std::string_view wanted);

// Reads of one kind; each throws through throw_argument.
int64_t read_int(lua_State* L, int i, const char* what);  // an integral number within +-2^53
double read_number(lua_State* L, int i, const char* what);
bool read_bool(lua_State* L, int i, const char* what);           // a boolean, no truthiness
std::string read_string(lua_State* L, int i, const char* what);  // a string; numbers are rejected
const at::Tensor& read_tensor(lua_State* L, int i, const char* what);  // not closed
LuaRef read_function(lua_State* L, int i, const char* what);
std::vector<int64_t> read_int_list(lua_State* L, int i, const char* what);
std::vector<std::string> read_string_list(lua_State* L, int i, const char* what);

template <class T>
struct IsShared : std::false_type {};
template <class T>
struct IsShared<std::shared_ptr<T>> : std::true_type {
  using Element = T;
};

// arg<int64_t>, <int>, <double>, <bool>, <std::string>, <at::Tensor> (const at::Tensor& works too),
// <LuaRef> (a function), <Json> (to_json), <std::vector<int64_t>>, <std::vector<std::string>>,
// <T&> of a registered class, <std::shared_ptr<T>>.
template <class T>
T arg(lua_State* L, int i, const char* what = nullptr);

// Returns arg<T>, or nullopt for nil and none (not for shared_ptr: test lua_isnoneornil and use
// arg).
template <class T>
std::optional<T> opt_arg(lua_State* L, int i, const char* what = nullptr) {
  if (lua_isnoneornil(L, i)) return std::nullopt;
  return arg<T>(L, i, what);
}

// Returns the value at index i as JSON: tables with keys 1..n are arrays, an empty table is an
// object unless `empty_array`. Throws Error, with the path to it, for a function, a userdata, a
// cycle and mixed keys.
Json to_json(lua_State* L, int i, bool empty_array = true);
// The first converts run.state at index i, the second checks a value that is about to be assigned
// to its field `name`. Errors name the field ("run.state.best: got function, ...").
Json state_to_json(lua_State* L, int i);
void check_state_value(lua_State* L, int i, const std::string& name);
// Pushes a JSON value; null is nil.
void push(lua_State* L, const Json& value);
// Pushes a row for functions over rows. A null in a list is the light userdata NULL (the global
// `null` of worker states), since nil would end the list there; to_json() reads it back. A null
// member is absent.
void push_row(lua_State* L, const Json& row);
// Pushes a shallow copy of the table at index i, read raw and without its metatable.
void push_table_copy(lua_State* L, int i);
void push(lua_State* L, std::string_view value);
void push(lua_State* L, const at::Tensor& value);  // undefined: nil; counts towards the byte debt
inline void push(lua_State* L, const char* value) { push(L, std::string_view(value)); }
inline void push(lua_State* L, const std::string& value) { push(L, std::string_view(value)); }
inline void push(lua_State* L, bool value) { lua_pushboolean(L, value); }
inline void push(lua_State* L, double value) { lua_pushnumber(L, value); }
inline void push(lua_State* L, int64_t value) { lua_pushnumber(L, static_cast<double>(value)); }
inline void push(lua_State* L, int value) { lua_pushnumber(L, value); }
inline void push(lua_State* L, size_t value) { lua_pushnumber(L, static_cast<double>(value)); }
template <class T>
requires(!std::is_same_v<T, Json>) void push(lua_State* L, const std::vector<T>& values) {
  lua_createtable(L, static_cast<int>(values.size()), 0);
  for (size_t i = 0; i < values.size(); ++i) {
    push(L, T(values[i]));
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
}

// Sets a field of the table on top of the stack.
template <class T>
void set_field(lua_State* L, const char* name, const T& value) {
  push(L, value);
  lua_setfield(L, -2, name);
}

// The table of options at argument i of the running binding. Its keys are those that the binding's
// documentation declares (LuaOption, doc.h), and for a type such as "xrun.Config.optim" the fields
// of that config table. The constructor throws UsageError with did-you-mean for another key; a
// missing or nil argument is an empty table.
//   state.function("shuffle", {{"n", "integer"}, {"options?", "table", {{"seed", "integer", 0}}}},
//                  ...);
//   const Options options(L, 2);
//   const int64_t seed = options.get<int64_t>("seed");  // 0 if it is not given
class Options {
 public:
  Options(lua_State* L, int i);

  bool has(const char* key) const;  // it is given; a default does not count
  bool is_string(const char* key) const;
  // Returns the option, or `otherwise` if it is missing: a default that depends on other values.
  template <class T>
  T get(const char* key, T otherwise) const {
    return has(key) ? get<T>(key) : std::move(otherwise);
  }
  // Returns the option, or its declared default. Throws Error if there is neither.
  template <class T>
  T get(const char* key) const {
    const StackGuard guard(state_);
    push_value(key);
    return arg<T>(state_, lua_gettop(state_), name_of(key));
  }
  template <class T>
  std::optional<T> find(const char* key) const {
    if (!has(key)) return std::nullopt;
    return get<T>(key);
  }
  void push_value(const char* key) const;  // the default if it is missing; nil without one
  // Checks the options that are fields of a config section against their declarations. Throws
  // UsageError "option `top_p`: got 2, wanted a number above 0".
  void check_fields(const std::string& section) const;

 private:
  const char* name_of(const char* key) const;
  void push_given(const char* key) const;  // nil if it is missing

  lua_State* state_;
  int index_;
  const LuaParameter* parameter_;
  mutable std::string name_;
};

template <class T>
T arg(lua_State* L, int i, const char* what) {
  using Bare = std::remove_cvref_t<T>;
  if constexpr (std::is_same_v<Bare, bool>) {
    return read_bool(L, i, what);
  } else if constexpr (std::is_integral_v<Bare>) {
    return static_cast<Bare>(read_int(L, i, what));
  } else if constexpr (std::is_floating_point_v<Bare>) {
    return static_cast<Bare>(read_number(L, i, what));
  } else if constexpr (std::is_same_v<Bare, std::string>) {
    return read_string(L, i, what);
  } else if constexpr (std::is_same_v<Bare, at::Tensor>) {
    return read_tensor(L, i, what);
  } else if constexpr (std::is_same_v<Bare, LuaRef>) {
    return read_function(L, i, what);
  } else if constexpr (std::is_same_v<Bare, Json>) {
    return to_json(L, i);
  } else if constexpr (std::is_same_v<Bare, std::vector<int64_t>>) {
    return read_int_list(L, i, what);
  } else if constexpr (std::is_same_v<Bare, std::vector<std::string>>) {
    return read_string_list(L, i, what);
  } else if constexpr (IsShared<Bare>::value) {
    return object_at<typename IsShared<Bare>::Element>(L, i, what);
  } else {
    static_assert(std::is_lvalue_reference_v<T>, "arg<T&> for objects of a registered class");
    return *object_at<Bare>(L, i, what);
  }
}

}  // namespace xrun
