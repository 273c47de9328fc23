// Metrics as a Lua object: reads one by its whole name or by the part after the last slash.

#include "lua/bind/metrics.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "lua/bind/modules.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

// `loss` finds "train/loss" too if no other name ends in "/loss". Throws Error if several do.
std::optional<double> find_by_ending(const Metrics& values, const std::string& name) {
  if (const auto whole = find_metric(values, name)) return whole;
  const std::pair<std::string, double>* found = nullptr;
  for (const auto& value : values) {
    if (!value.first.ends_with("/" + name)) continue;
    XRUN_CHECK(found == nullptr, "`{}` may be {} or {}; write m[\"{}\"]", name, found->first,
               value.first, found->first);
    found = &value;
  }
  return found == nullptr ? std::nullopt : std::optional(found->second);
}

int push_metric(MetricTable& self, const std::string& name, lua_State* L) {
  if (const auto value = find_by_ending(self.values, name)) {
    push(L, *value);
    return 1;
  }
  // A recipe may read a metric that an empty set or a skipped step does not have.
  if (self.values.empty() || find_metric(self.values, "train/skipped")) {
    lua_pushnil(L);
    return 1;
  }
  std::vector<std::string> names;
  for (const auto& [full, value] : self.values) {
    names.push_back(full);
    names.push_back(full.substr(full.rfind('/') + 1));
  }
  const std::string near = nearest_name(name, names);
  throw Error(fmt::format(
      "there is no metric `{}`{}", name,
      near.empty() ? "; tostring(m) lists them" : "\nhint: did you mean `" + near + "`?"));
}

std::string describe(const MetricTable& table) {
  std::string text;
  for (const auto& [name, value] : table.values) {
    add_item(text, fmt::format("{} = {:.6g}", name, plain_nan(value)), "\n");
  }
  return text;
}

}  // namespace

// "loss/chats" belongs to the step if "loss" does: it is the loss of one source.
MetricTable with_prefix(Metrics values, const std::string& prefix) {
  Metrics prefixed;
  for (const auto& [name, value] : values) {
    const size_t slash = name.rfind('/');
    const bool belongs = slash == std::string::npos ||
                         (find_metric(values, name.substr(0, slash)) && name.find('/') == slash);
    prefixed.emplace_back(belongs ? prefix + name : name, value);
  }
  return {std::move(prefixed)};
}

Metrics read_metrics(lua_State* L, int i) {
  if (class_of(L, i) == &class_info<MetricTable>) return arg<MetricTable&>(L, i).values;
  if (lua_type(L, i) != LUA_TTABLE) {
    throw_argument(L, i, "metrics",
                   "what adamw:step or run:evaluate returned, or a table of numbers");
  }
  Metrics values;
  for (lua_pushnil(L); lua_next(L, i) != 0; lua_pop(L, 1)) {
    XRUN_CHECK(lua_type(L, -2) == LUA_TSTRING, "a metric's key is {}, wanted a string",
               type_name(L, -2));
    const std::string name = lua_tostring(L, -2);
    XRUN_CHECK(lua_type(L, -1) == LUA_TNUMBER,
               "{} is {}, wanted a number; call :item() on a tensor", name, type_name(L, -1));
    values.emplace_back(name, lua_tonumber(L, -1));
  }
  // A Lua table has no order, and metrics.jsonl must be the same each time.
  std::sort(values.begin(), values.end());
  return with_prefix(std::move(values), "recipe/").values;
}

void open_metrics(LuaState& state) {
  Class<MetricTable>(
      state, "Metrics",
      "Values to log, in order. m[\"train/loss\"] reads one by its full name, m.loss by the end "
      "of its name; if several names end so, it raises and lists them. A missing name raises "
      "too, but is nil for an empty set (#m == 0) and for a step without an update (m.skipped).")
      .metamethod("__len", {}, {"integer"}, "The number of metrics.",
                  [](MetricTable& self, lua_State* L) {
                    push(L, self.values.size());
                    return 1;
                  })
      .fallback(push_metric)
      .tostring(describe);
}

}  // namespace xrun
