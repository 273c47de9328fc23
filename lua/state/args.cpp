// Reads never coerce a string to a number or the reverse, so that a mistake is an error at its own
// line.

#include "lua/state/args.h"

#include <cmath>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/config/config_field.h"

namespace xrun {

void throw_argument(lua_State* L, int i, const char* what, std::string_view wanted) {
  // Read before any push: an index beyond the top is "nothing", not what lies there later.
  const std::string got = lua_type(L, i) == LUA_TNONE ? "nothing" : describe_value(L, i);
  const std::string_view full = what == nullptr ? "" : what;
  if (full.find(' ') != std::string_view::npos) {  // "option `eps`", "a list's element"
    const std::string message = fmt::format("{}: got {}, wanted {}", full, got, wanted);
    if (full.starts_with("option ")) throw UsageError(message);
    throw Error(message);
  }
  // Argument 1 of a method is the object before the colon; callers number what is in parentheses.
  const std::string name = what == nullptr ? "" : fmt::format(" ({})", what);
  throw Error(fmt::format("argument {}{}: got {}, wanted {}", i, name, got, wanted));
}

int64_t read_int(lua_State* L, int i, const char* what) {
  constexpr double kLargest = 9007199254740992.0;  // 2^53: beyond it doubles skip integers
  // NaN for anything else fails the test below: floor(NaN) differs from NaN.
  const double value = lua_type(L, i) == LUA_TNUMBER ? lua_tonumber(L, i) : NAN;
  if (!(std::floor(value) == value && std::fabs(value) <= kLargest)) {
    throw_argument(L, i, what, "a whole number");
  }
  return static_cast<int64_t>(value);
}

double read_number(lua_State* L, int i, const char* what) {
  if (lua_type(L, i) != LUA_TNUMBER) throw_argument(L, i, what, "a number");
  return lua_tonumber(L, i);
}

bool read_bool(lua_State* L, int i, const char* what) {
  if (lua_type(L, i) != LUA_TBOOLEAN) throw_argument(L, i, what, "true or false");
  return lua_toboolean(L, i) != 0;
}

std::string read_string(lua_State* L, int i, const char* what) {
  if (lua_type(L, i) != LUA_TSTRING) throw_argument(L, i, what, "a string");
  return std::string(string_at(L, i));
}

LuaRef read_function(lua_State* L, int i, const char* what) {
  if (lua_type(L, i) != LUA_TFUNCTION) throw_argument(L, i, what, "a function");
  return LuaRef(L, i);
}

namespace {

template <class T, class Read>
std::vector<T> read_list(lua_State* L, int i, const char* what, const char* wanted, Read read) {
  if (lua_type(L, i) != LUA_TTABLE) throw_argument(L, i, what, wanted);
  // With gaps the length is any of the list's borders; the nil of a gap then fails the read.
  const int size = static_cast<int>(lua_objlen(L, i));
  std::vector<T> values;
  for (int k = 1; k <= size; ++k) {
    // Raw, as everywhere here: a metamethod could run code of the recipe in the middle of a read.
    lua_rawgeti(L, i, k);
    const std::string name = fmt::format("element {} of {}", k, what == nullptr ? "a list" : what);
    values.push_back(read(L, lua_gettop(L), name.c_str()));
    lua_pop(L, 1);
  }
  return values;
}

}  // namespace

std::vector<int64_t> read_int_list(lua_State* L, int i, const char* what) {
  return read_list<int64_t>(L, i, what, "a list of whole numbers", read_int);
}

std::vector<std::string> read_string_list(lua_State* L, int i, const char* what) {
  return read_list<std::string>(L, i, what, "a list of strings", read_string);
}

void push_table_copy(lua_State* L, int i) {
  lua_newtable(L);
  const int copy = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, i) != 0; lua_pop(L, 1)) {
    lua_pushvalue(L, -2);
    lua_pushvalue(L, -2);
    lua_rawset(L, copy);
  }
}

void push(lua_State* L, std::string_view value) { lua_pushlstring(L, value.data(), value.size()); }

namespace {

// The table of options among the parameters of the running function.
const LuaParameter* documented_options(lua_State* L) {
  // Upvalue 1 of every binding is its Binding (push_binding).
  const auto& entry = static_cast<const Binding*>(lua_touserdata(L, lua_upvalueindex(1)))->entry;
  for (const LuaParameter& parameter : entry.parameters) {
    if (!option_keys(parameter).empty()) return &parameter;
  }
  throw Error(fmt::format("{} documents no table of options", entry.name));
}

}  // namespace

Options::Options(lua_State* L, int i) : state_(L), index_(i), parameter_(documented_options(L)) {
  // No options are the same as {}.
  if (lua_isnoneornil(L, i)) {
    index_ = 0;
    return;
  }
  if (lua_type(L, i) != LUA_TTABLE) throw_argument(L, i, "options", "a table of options");
  const StackGuard guard(L);
  const std::vector<std::string> names = option_keys(*parameter_);
  lua_pushnil(L);
  // All keys are checked before any is read, so that a slip is reported even beside a missing key.
  // lua_next needs the key on top, so only the value is popped.
  while (lua_next(L, i) != 0) {
    lua_pop(L, 1);
    const bool text = lua_type(L, -1) == LUA_TSTRING;
    const std::string key = text ? read_string(L, -1, nullptr) : describe_value(L, -1);
    bool found = false;
    for (const std::string& name : names) found = found || (text && name == key);
    if (found) continue;
    const std::string near = nearest_name(key, names);
    std::string all;
    for (const std::string& name : names) add_item(all, name);
    throw UsageError(fmt::format("there is no option `{}`; options are {}{}", key, all,
                                 near.empty() ? "" : "\nhint: did you mean `" + near + "`?"));
  }
}

bool Options::has(const char* key) const {
  const StackGuard guard(state_);
  push_given(key);
  return !lua_isnil(state_, -1);
}

bool Options::is_string(const char* key) const {
  const StackGuard guard(state_);
  push_value(key);
  return lua_type(state_, -1) == LUA_TSTRING;
}

void Options::push_value(const char* key) const {
  has(key) ? push_given(key) : push(state_, option_default(*parameter_, key));
}

void Options::push_given(const char* key) const {
  // No table was given: every key is absent.
  if (index_ == 0) return lua_pushnil(state_);
  lua_pushstring(state_, key);
  lua_rawget(state_, index_);
}

void Options::check_fields(const std::string& section) const {
  const StackGuard guard(state_);
  for (const std::string& name : config_field_names(section)) {
    if (!has(name.c_str())) continue;
    push_value(name.c_str());
    const int value = lua_gettop(state_);
    const ConfigField& field = *find_config_field(section + "." + name);
    const bool plain = lua_type(state_, value) != LUA_TFUNCTION;
    if (!plain || !fits(field, to_json(state_, value))) {
      throw UsageError(fmt::format("option `{}`: got {}, wanted {}", name,
                                   describe_value(state_, value), wanted_text(field)));
    }
  }
}

// Valid until the next call, which uses the buffer again.
const char* Options::name_of(const char* key) const {
  name_ = fmt::format("option `{}`", key);
  return name_.c_str();
}

}  // namespace xrun
