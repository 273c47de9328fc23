// Names on the source line are looked up in the failed frame, without calling metamethods: a getter
// could have effects.

#include "lua/state/source_excerpt.h"

#include <algorithm>

#include "core/base/strings.h"
#include "core/config/lua_source.h"
#include "core/console/terminal/shown_text.h"
#include "lua/state/args.h"
#include "lua/state/class.h"

namespace xrun {
namespace {

constexpr size_t kFieldsShown = 6;  // of a table beside an error

// Describes a table without numbered elements by the names of its first fields, sorted, since the
// order of a Lua table is not fixed.
std::string describe_fields(lua_State* L, int i) {
  const StackGuard guard(L);
  lua_pushvalue(L, i);
  std::vector<std::string> names;
  for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
    if (lua_type(L, -2) == LUA_TSTRING) names.emplace_back(lua_tostring(L, -2));
  }
  if (names.empty()) return "a table";
  std::sort(names.begin(), names.end());
  std::string list;
  for (size_t i = 0; i < names.size() && i < kFieldsShown; ++i) add_item(list, names[i]);
  return fmt::format("a table {{{}{}}}", list, names.size() > kFieldsShown ? ", ..." : "");
}

// Pushes the value of a visible local or upvalue of the frame; false (nothing pushed) if none.
bool push_variable(lua_State* L, lua_Debug& frame, std::string_view name) {
  bool found = false;
  for (int n = 1; const char* local = lua_getlocal(L, &frame, n); ++n) {
    if (name == local) {
      if (found) lua_remove(L, -2);  // a later declaration hides an earlier one
      found = true;
    } else {
      lua_pop(L, 1);
    }
  }
  if (found) return true;
  // "f" pushes the function, whose upvalues follow.
  lua_getinfo(L, "f", &frame);
  for (int n = 1; const char* upvalue = lua_getupvalue(L, -1, n); ++n) {
    if (name == upvalue) {
      lua_remove(L, -2);
      return true;
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return false;
}

// Replaces the value on top by its field, through plain tables only (a getter may have effects).
bool step_into(lua_State* L, std::string_view field) {
  if (lua_type(L, -1) != LUA_TTABLE) return false;
  push(L, field);
  lua_rawget(L, -2);
  const bool lazy = lua_isnil(L, -1) && luaL_getmetafield(L, -2, "__index") != 0;
  // The field would be computed by a metamethod, which must not run here.
  if (lazy) return false;
  lua_remove(L, -2);
  return true;
}

bool push_path(lua_State* L, lua_Debug& frame, std::string_view path) {
  size_t dot = path.find('.');
  if (!push_variable(L, frame, path.substr(0, dot))) return false;
  while (dot != std::string_view::npos) {
    const size_t next = path.find('.', dot + 1);
    if (!step_into(L, path.substr(dot + 1, next == std::string_view::npos ? next : next - dot - 1)))
      return false;
    dot = next;
  }
  return true;
}

bool worth_showing(lua_State* L, int i) {
  const int type = lua_type(L, i);
  return type != LUA_TFUNCTION && type != LUA_TTHREAD &&
         !(type == LUA_TTABLE && luaL_getmetafield(L, i, "__index") != 0);
}

std::string_view operator_of(std::string_view event) {
  constexpr std::pair<std::string_view, std::string_view> kOperators[] = {
      {"__add", "+"},     {"__sub", "-"}, {"__mul", "*"}, {"__div", "/"},
      {"__mod", "%"},     {"__pow", "^"}, {"__unm", "-"}, {"__eq", "=="},
      {"__concat", ".."}, {"__len", "#"}, {"__lt", "<"},  {"__le", "<="}};
  for (const auto& [name, sign] : kOperators) {
    if (event == name) return sign;
  }
  return "";
}

// The name in Lua's own messages: "attempt to index local 'p' (a nil value)".
std::string_view quoted_name(std::string_view message) {
  for (std::string_view before : {"local '", "global '", "field '", "upvalue '", "method '"}) {
    const size_t at = message.find(before);
    if (at == std::string_view::npos) continue;
    const size_t begin = at + before.size();
    return message.substr(begin, message.find('\'', begin) - begin);
  }
  const size_t tick = message.find('`');  // our own messages
  if (tick == std::string_view::npos) return "";
  const std::string_view rest = message.substr(tick + 1);
  const std::string_view name = rest.substr(0, rest.find('`'));
  return name.substr(name.find_last_of('.') + 1);  // npos + 1 is 0
}

}  // namespace

std::string display_name(std::string_view operation) {
  const size_t last = operation.find_last_of(".:");
  const std::string_view name =
      last == std::string_view::npos ? operation : operation.substr(last + 1);
  if (!name.starts_with("__")) return std::string(operation);
  const std::string_view sign = operator_of(name);
  return sign.empty() ? "" : fmt::format("`{}`", sign);
}

std::optional<int> tail_call_line(std::string_view text, int first, int last,
                                  std::string_view operation) {
  // "Policy:loss" and "xrun.f" are called by their last name.
  const std::string_view name = operation.substr(operation.find_last_of(".:") + 1);
  std::optional<int> found;
  int returning = 0;  // the line of the last `return`
  for (const LuaToken& token : lua_names(text, false)) {
    if (token.line < first || (last != 0 && token.line > last)) continue;
    if (token.text == "return") returning = token.line;
    if (token.line != returning || token.text != name) continue;
    // Two lines return such a call: neither is certain.
    if (found && *found != token.line) return std::nullopt;
    found = token.line;
  }
  return found;
}

void mark_source(ErrorReport& report) {
  const std::string_view line = report.source_line;
  std::string_view name = quoted_name(report.message);
  if (!display_name(report.operation).empty()) {
    const size_t last = report.operation.find_last_of(".:");
    name = std::string_view(report.operation).substr(last == std::string::npos ? 0 : last + 1);
    if (const std::string_view sign = operator_of(name); !sign.empty()) {
      // Only a sign that is on the line once can be marked with certainty.
      const size_t at = line.find(sign);
      if (at != std::string_view::npos && line.find(sign, at + sign.size()) == line.npos) {
        report.mark_begin = static_cast<int>(at);
        report.mark_end = static_cast<int>(at + sign.size());
        return;
      }
    }
  }
  for (const LuaToken& token : lua_names(line, false)) {
    if (token.text != name) continue;
    report.mark_begin = static_cast<int>(token.begin);
    report.mark_end = static_cast<int>(token.end);
    return;
  }
  // No name to mark: the whole statement.
  const size_t first = line.find_first_not_of(" \t");
  if (first == std::string_view::npos) return;
  report.mark_begin = static_cast<int>(first);
  report.mark_end = static_cast<int>(line.find_last_not_of(" \t") + 1);
}

std::vector<std::string> values_on_line(lua_State* L, int level, std::string_view source_line,
                                        int arguments) {
  const StackGuard guard(L);
  luaL_checkstack(L, LUA_MINSTACK + arguments, "no room for an error");
  std::vector<std::string> values, seen;
  const int first_shown = lua_gettop(L) + 1;
  lua_Debug frame{};
  if (level >= 0 && lua_getstack(L, level, &frame) != 0) {
    for (const LuaToken& token : lua_names(source_line, true)) {
      const std::string& path = token.text;
      // Six lines of values still leave the excerpt in view.
      if (values.size() == 6 || std::find(seen.begin(), seen.end(), path) != seen.end()) continue;
      seen.push_back(path);
      const int before = lua_gettop(L);
      if (!push_path(L, frame, path) || !worth_showing(L, before + 1)) {
        lua_settop(L, before);
        continue;
      }
      lua_settop(L, before + 1);  // the value stays, so that operands can be compared with it
      values.push_back(path + " = " + describe_value(L, -1));
    }
  }
  const int last_shown = lua_gettop(L);
  for (int i = 1; i <= arguments && i < first_shown; ++i) {
    // Only objects of ours: numbers and strings are on the line.
    if (class_of(L, i) == nullptr) continue;
    bool named = false;
    // An operand that a name on the line already shows is not repeated.
    for (int k = first_shown; k <= last_shown; ++k) named = named || lua_rawequal(L, i, k) != 0;
    if (!named) values.push_back(fmt::format("operand {} = {}", i, describe_value(L, i)));
  }
  return values;
}

namespace {

// A string as one line of at most about 40 bytes: answers of a model have newlines and worse.
std::string short_line(std::string_view text) {
  if (text.size() <= 40) return shown_text(text, Blanks::kBreaksMarked);
  size_t end = 37;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return shown_text(text.substr(0, end), Blanks::kBreaksMarked) + "...";
}

}  // namespace

std::string describe_value(lua_State* L, int i) {
  if (const ClassInfo* info = class_of(L, i)) {
    return info->describe == nullptr ? info->name : info->describe(lua_touserdata(L, i));
  }
  switch (lua_type(L, i)) {
    case LUA_TNONE: return "nothing";
    case LUA_TBOOLEAN: return lua_toboolean(L, i) != 0 ? "true" : "false";
    case LUA_TNUMBER: return fmt::format("{:.14g}", lua_tonumber(L, i));
    case LUA_TSTRING: {
      size_t size = 0;
      const char* const bytes = lua_tolstring(L, i, &size);
      return "\"" + short_line({bytes, size}) + "\"";
    }
    case LUA_TTABLE: {
      const size_t length = lua_objlen(L, i);
      std::string list;
      // A list of numbers is shown; any other element makes it "a list of n".
      for (size_t k = 1; k <= length && k <= 8; ++k) {
        lua_rawgeti(L, i, static_cast<int>(k));
        const bool number = lua_type(L, -1) == LUA_TNUMBER;
        if (number) list += fmt::format("{}{:.14g}", k == 1 ? "" : ", ", lua_tonumber(L, -1));
        lua_pop(L, 1);
        if (!number) return fmt::format("a list of {}", length);
      }
      if (length > 0) return "{" + list + (length > 8 ? ", ...}" : "}");
      return describe_fields(L, i);
    }
    // LuaJIT's type number of cdata, which lua.h does not name.
    case 10: return "an int64 or other cdata";
    default: return lua_typename(L, lua_type(L, i));
  }
}

}  // namespace xrun
