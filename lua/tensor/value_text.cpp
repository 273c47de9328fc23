// Values are read into a tree first, within the limits, and then laid out; a table that fits is on
// one line. Tables are read raw, so that only __tostring runs code of the recipe, and only if
// allowed.

#include "lua/tensor/value_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "core/base/strings.h"
#include "core/base/utf8.h"
#include "core/config/lua_source.h"
#include "core/console/terminal/shown_text.h"
#include "core/console/terminal/text_width.h"
#include "lua/state/args.h"
#include "lua/tensor/tensor.h"

namespace xrun {
namespace {

constexpr size_t kLongest = 2000;       // bytes of a string that are shown
constexpr size_t kLongestWithin = 200;  // and within a table

std::string number_text(double value) {
  // Beyond 2^53 an integer's digits would not be its own.
  if (value == std::floor(value) && std::abs(value) < 9007199254740992.0) {
    return fmt::format("{}", static_cast<int64_t>(value));
  }
  return fmt::format("{:.14g}", plain_nan(value));
}

// Returns bytes as a Lua string in double quotes, longer ones shortened to about `most` bytes.
std::string quoted_text(std::string_view bytes, size_t most = kLongest) {
  const std::string_view shown = bytes.substr(0, most);
  std::string out = "\"";
  for (size_t at = 0; at < shown.size();) {
    const CodePoint point = read_utf8(shown, at);
    const auto byte = static_cast<unsigned char>(shown[at]);
    const char after = at + 1 < shown.size() ? shown[at + 1] : ' ';
    if (byte == '\n' || byte == '\t' || byte == '\r') {
      out += byte == '\n' ? "\\n" : byte == '\t' ? "\\t" : "\\r";
    } else if (byte == '"' || byte == '\\') {
      out += '\\';
      out += shown[at];
    } else if (byte < 0x20 || byte == 0x7f || !point.valid) {
      // Three digits if a digit follows, which would otherwise be read as one more.
      out += std::isdigit(static_cast<unsigned char>(after)) != 0 ? fmt::format("\\{:03}", byte)
                                                                  : fmt::format("\\{}", byte);
    } else if (byte >= 0x80 && !is_shown(point.value)) {
      out += fmt::format("\\u{{{:X}}}", point.value);
    } else {
      out += shown.substr(at, point.size);
    }
    at += point.size;
  }
  out += '"';
  if (shown.size() == bytes.size()) return out;
  return out + fmt::format("... ({} bytes)", count_text(static_cast<int64_t>(bytes.size())));
}

// tostring without the global of that name, which a recipe may replace or remove.
int call_tostring(lua_State* L) { return luaL_callmeta(L, 1, "__tostring"); }

// A value that was read: a string, or members between braces.
struct Shown {
  std::string text;
  bool table = false;
  std::vector<std::pair<std::string, Shown>> members = {};  // "x = " or "" and the value
};

class ValueReader {
 public:
  ValueReader(lua_State* L, const ValueTextOptions& options) : L_(L), options_(options) {}

  Shown read(int i, int depth) {
    ++values_;
    switch (lua_type(L_, i)) {
      case LUA_TNIL: return {"nil"};
      case LUA_TBOOLEAN: return {lua_toboolean(L_, i) != 0 ? "true" : "false"};
      case LUA_TNUMBER: return {number_text(lua_tonumber(L_, i))};
      case LUA_TSTRING: {
        const std::string_view bytes = string_at(L_, i);
        return {depth == 0 ? quoted_text(bytes) : quoted_text(bytes, kLongestWithin)};
      }
      case LUA_TFUNCTION: return {function_text(L_, i)};
      case LUA_TTABLE: return read_table(i, depth);
      case LUA_TUSERDATA:
        if (const at::Tensor* tensor = tensor_if(L_, i)) {
          return {depth == 0 ? tensor_summary(*tensor, options_.width) : tensor_line(*tensor)};
        }
        return {shown_text(describe_value(L_, i))};
      case LUA_TTHREAD: return {"coroutine"};
      default: return read_other(i);
    }
  }

 private:
  // The result of __tostring: for FFI values, and tables that have one.
  Shown read_other(int i) {
    const StackGuard guard(L_);
    luaL_checkstack(L_, 8, "no room to print");
    lua_pushcfunction(L_, call_tostring);
    lua_pushvalue(L_, i);
    try {
      protected_call(L_, 1, 1);
    } catch (const LuaError&) {
      if (options_.calls) throw;
      return {shown_text(describe_value(L_, i))};
    }
    // A __tostring may return anything.
    const bool text = lua_isstring(L_, -1) != 0;
    return {shown_text(text ? std::string(string_at(L_, -1)) : describe_value(L_, i))};
  }

  Shown read_table(int i, int depth) {
    if (options_.calls && luaL_getmetafield(L_, i, "__tostring") != 0) {
      lua_pop(L_, 1);
      return read_other(i);
    }
    // Tables are compared by identity.
    const void* table = lua_topointer(L_, i);
    const auto above = std::find(open_.begin(), open_.end(), table);
    if (above != open_.end()) {
      const auto levels = open_.end() - above;
      return {levels == 1 ? "<this table again>"
                          : fmt::format("<the table {} levels up again>", levels - 1)};
    }
    luaL_checkstack(L_, 6, "no room to print");
    const std::vector<SortedKey> keys = keys_of(i);
    if (keys.empty()) return {"{}"};
    if (depth >= options_.depth || values_ > options_.most_values) {
      return {fmt::format("{{... {} inside}}", count_text(static_cast<int64_t>(keys.size())))};
    }
    open_.push_back(table);
    Shown shown{.text = "", .table = true, .members = {}};
    // Elements 1, 2, ... are shown without their keys.
    double expected = 1;
    for (const SortedKey& key : keys) {
      if (static_cast<int>(shown.members.size()) >= options_.most_members ||
          values_ > options_.most_values) {
        const auto left = static_cast<int64_t>(keys.size() - shown.members.size());
        shown.members.push_back({"", {fmt::format("... {} more", count_text(left))}});
        break;
      }
      const bool element = key.kind == 0 && key.number == expected;
      expected += element ? 1 : 0;
      push_key(i, key);
      Shown value = read(lua_gettop(L_), depth + 1);
      lua_pop(L_, 1);
      shown.members.push_back({element ? "" : key.text + " = ", std::move(value)});
    }
    open_.pop_back();
    return shown;
  }

  struct SortedKey {
    int kind;  // 0 number, 1 text, 2 another
    double number = 0;
    std::string bytes;  // the text of a string key
    std::string text;   // the displayed form
    int position = 0;   // of any other key: its number in the order of lua_next
  };

  std::vector<SortedKey> keys_of(int i) {
    std::vector<SortedKey> keys;
    int position = 0;
    lua_pushnil(L_);
    while (lua_next(L_, i) != 0) {
      lua_pop(L_, 1);
      ++position;
      if (lua_type(L_, -1) == LUA_TNUMBER) {
        const double number = lua_tonumber(L_, -1);
        keys.push_back({0, number, "", "[" + number_text(number) + "]", position});
      } else if (lua_type(L_, -1) == LUA_TSTRING) {
        std::string key(string_at(L_, -1));
        std::string text = is_lua_name(key) ? key : "[" + quoted_text(key, kLongestWithin) + "]";
        keys.push_back({1, 0, std::move(key), std::move(text), position});
      } else {
        // A table as a key is not opened: its contents are not its name.
        const bool table = lua_type(L_, -1) == LUA_TTABLE;
        keys.push_back(
            {2, 0, "", "[" + (table ? "table" : read(lua_gettop(L_), 1).text) + "]", position});
      }
    }
    // Numbers, then names, then the rest, so that a table prints the same in every run.
    std::stable_sort(keys.begin(), keys.end(), [](const SortedKey& a, const SortedKey& b) {
      if (a.kind != b.kind) return a.kind < b.kind;
      if (a.kind == 0) return a.number < b.number;
      return a.kind == 1 ? a.bytes < b.bytes : a.text < b.text;
    });
    return keys;
  }

  // Pushes the value of a key; other keys are found by their position.
  void push_key(int i, const SortedKey& key) {
    if (key.kind == 0) {
      lua_pushnumber(L_, key.number);
      return lua_rawget(L_, i);
    }
    if (key.kind == 1) {
      push(L_, key.bytes);
      return lua_rawget(L_, i);
    }
    // By position: the order of lua_next stays while nothing is assigned.
    lua_pushnil(L_);
    for (int at = 1; lua_next(L_, i) != 0; ++at) {
      if (at == key.position) {
        lua_remove(L_, -2);
        return;
      }
      lua_pop(L_, 1);
    }
    lua_pushnil(L_);
  }

  lua_State* L_;
  const ValueTextOptions& options_;
  std::vector<const void*> open_;  // tables around the one that is read
  int values_ = 0;
};

std::string flat(const Shown& shown) {
  if (!shown.table) return shown.text;
  std::string text = "{ ";
  for (size_t m = 0; m < shown.members.size(); ++m) {
    text += (m > 0 ? ", " : "") + shown.members[m].first + flat(shown.members[m].second);
  }
  return text + " }";
}

// On one line if it fits, else one member per line.
void append(std::string& out, const Shown& shown, int indent, int column, int width) {
  // Again at each level; most_values bounds the tree.
  const std::string line = flat(shown);
  if (!shown.table || column + text_width(line) <= width) {
    out += line;
    return;
  }
  const std::string blanks(static_cast<size_t>(indent + 2), ' ');
  out += "{\n";
  int filled = 0;  // columns of a line of elements
  for (const auto& [key, value] : shown.members) {
    const int member_width = text_width(flat(value)) + 2;
    // Plain elements share lines; each named member has its own.
    const bool shares = key.empty() && !value.table;
    if (shares && filled > 0 && filled + member_width <= width) {
      out.back() = ' ';
    } else {
      out += blanks;
      filled = indent + 2;
    }
    out += key;
    // The comma takes a column.
    append(out, value, indent + 2, indent + 2 + text_width(key), width - 1);
    out += ",\n";
    filled = shares ? filled + member_width : 0;
  }
  out += std::string(static_cast<size_t>(indent), ' ') + "}";
}

}  // namespace

std::string function_text(lua_State* L, int i) {
  const StackGuard guard(L);
  lua_pushvalue(L, i);
  if (lua_tocfunction(L, -1) == enter_binding && lua_getupvalue(L, -1, 1) != nullptr) {
    const auto& entry = static_cast<const Binding*>(lua_touserdata(L, -1))->entry;
    // Lua's own ones are bindings too (stack_guard.h).
    if (entry.kind != DocKind::kMetamethod) return "function " + entry.name + signature_text(entry);
    return "function of Lua's library";
  }
  if (lua_iscfunction(L, -1) != 0) return "function of Lua's library";
  std::string parameters;
  for (int n = 1; const char* name = lua_getlocal(L, nullptr, n); ++n) {
    parameters += (n > 1 ? ", " : "") + std::string(name);
  }
  lua_Debug about{};
  lua_pushvalue(L, i);
  lua_getinfo(L, ">S", &about);
  const char* source = about.source[0] == '@' || about.source[0] == '=' ? about.source + 1 : "?";
  return shown_text(fmt::format("function({})  {}:{}", parameters, source, about.linedefined));
}

std::string value_text(lua_State* L, int i, const ValueTextOptions& options) {
  const StackGuard guard(L);
  const int index = i < 0 && i > LUA_REGISTRYINDEX ? lua_gettop(L) + 1 + i : i;
  std::string out;
  append(out, ValueReader(L, options).read(index, 0), 0, 0, options.width);
  return out;
}

}  // namespace xrun
