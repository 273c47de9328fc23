// A table is a list if its keys are 1..n, an object if they are all strings; any other table is an
// error. Keys of objects are sorted, since Lua's order differs between runs.

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "lua/state/args.h"

namespace xrun {
namespace {

// A table that contains itself ends there, with an error instead of a stack overflow.
constexpr int kDeepest = 100;

struct JsonReader {
  lua_State* L;
  bool empty_array;
  std::string path;

  [[noreturn]] void fail(std::string_view what) const {
    throw Error(fmt::format("{}{}{}", path.empty() ? "the value" : path, ": ", what));
  }

  Json read(int i, int depth) {
    switch (lua_type(L, i)) {
      case LUA_TNIL: return {};
      case LUA_TBOOLEAN: return lua_toboolean(L, i) != 0;
      case LUA_TSTRING: return read_string(L, i, nullptr);
      case LUA_TNUMBER: return number(lua_tonumber(L, i));
      case LUA_TTABLE: return table(i, depth);
      case LUA_TLIGHTUSERDATA:
        // A null of a row comes back as push_row wrote it.
        if (lua_touserdata(L, i) == nullptr) return {};
        [[fallthrough]];
      default:
        fail(fmt::format("got {}, wanted text, a number, true, false or a table of them",
                         describe_value(L, i)));
    }
  }

  static Json number(double value) {
    const bool whole = std::floor(value) == value && std::fabs(value) <= 9007199254740992.0;
    // -0 stays a double: as an integer it would lose its sign.
    if (whole && !(value == 0 && std::signbit(value))) return static_cast<int64_t>(value);
    return value;
  }

  Json table(int i, int depth) {
    if (depth > kDeepest) fail("nested too deep, or a table that contains itself");
    luaL_checkstack(L, 6, "no room to read a table");
    const size_t length = lua_objlen(L, i);
    std::vector<std::string> keys;
    size_t others = 0;
    lua_pushnil(L);
    while (lua_next(L, i) != 0) {
      lua_pop(L, 1);
      if (lua_type(L, -1) == LUA_TSTRING) {
        keys.push_back(read_string(L, lua_gettop(L), nullptr));
      } else {
        ++others;
      }
    }
    // lua_objlen is a border: with gaps it may be any of them, so keys are counted.
    if (keys.empty() && others == length) return list(i, length, depth);
    if (others > 0) fail("a table has both named and numbered keys, or gaps in its numbers");
    return object(i, keys, depth);
  }

  Json list(int i, size_t length, int depth) {
    // {} is a list and an object alike; the caller knows which it needs.
    if (length == 0 && !empty_array) return Json::object();
    Json::Array values;
    values.reserve(length);
    const std::string outer = path;
    for (size_t k = 1; k <= length; ++k) {
      path = fmt::format("{}[{}]", outer, k);
      lua_rawgeti(L, i, static_cast<int>(k));
      values.push_back(read(lua_gettop(L), depth + 1));
      lua_pop(L, 1);
    }
    path = outer;
    return Json(std::move(values));
  }

  Json object(int i, std::vector<std::string>& keys, int depth) {
    std::sort(keys.begin(), keys.end());
    Json::Object members;
    members.reserve(keys.size());
    const std::string outer = path;
    for (std::string& key : keys) {
      path = outer.empty() ? key : outer + "." + key;
      push(L, key);
      lua_rawget(L, i);
      Json value = read(lua_gettop(L), depth + 1);
      lua_pop(L, 1);
      members.emplace_back(std::move(key), std::move(value));
    }
    path = outer;
    return Json(std::move(members));
  }
};

}  // namespace

Json to_json(lua_State* L, int i, bool empty_array) {
  const int index = i < 0 ? lua_gettop(L) + 1 + i : i;
  const StackGuard guard(L);
  return JsonReader{L, empty_array, ""}.read(index, 0);
}

Json state_to_json(lua_State* L, int i) {
  const StackGuard guard(L);
  return JsonReader{L, true, "run.state"}.read(i, 0);
}

void check_state_value(lua_State* L, int i, const std::string& name) {
  const StackGuard guard(L);
  JsonReader{L, true, "run.state." + name}.read(i, 0);
}

namespace {

enum class NullInList { kNil, kLightUserdata };

void push_json(lua_State* L, const Json& value, NullInList null) {
  luaL_checkstack(L, 4, "no room to push a table");
  switch (value.kind()) {
    case Json::Kind::kNull: return lua_pushnil(L);
    case Json::Kind::kBool: return lua_pushboolean(L, value.as_bool());
    case Json::Kind::kInt: return lua_pushnumber(L, static_cast<double>(value.as_int()));
    case Json::Kind::kDouble:
    // Rounded: Lua has only doubles.
    case Json::Kind::kBigInt: return lua_pushnumber(L, value.as_double());
    case Json::Kind::kString: return push(L, std::string_view(value.as_string()));
    case Json::Kind::kArray: {
      lua_createtable(L, static_cast<int>(value.size()), 0);
      int k = 0;
      for (const Json& element : value.as_array()) {
        // A nil would end the list; null as light userdata keeps its place and its length.
        if (element.is_null() && null == NullInList::kLightUserdata) {
          lua_pushlightuserdata(L, nullptr);
        } else {
          push_json(L, element, null);
        }
        lua_rawseti(L, -2, ++k);
      }
      return;
    }
    case Json::Kind::kObject: {
      lua_createtable(L, 0, static_cast<int>(value.size()));
      for (const auto& [key, member] : value.as_object()) {
        push(L, std::string_view(key));
        // A member that is null becomes nil, and so is absent.
        push_json(L, member, null);
        lua_rawset(L, -3);
      }
      return;
    }
  }
}

}  // namespace

void push(lua_State* L, const Json& value) { push_json(L, value, NullInList::kNil); }

void push_row(lua_State* L, const Json& row) { push_json(L, row, NullInList::kLightUserdata); }

}  // namespace xrun
