#include "lua/bind/metrics.h"

#include <algorithm>

#include "core/base/error.h"
#include "lua/bind/args.h"
#include "lua/bind/modules.h"

namespace xrun {

namespace {

// `loss` finds "train/loss" as well: the last part of a name is enough where it
// is unique.
const double* find_metric(const Metrics& values, const std::string& name) {
  for (const auto& [full, value] : values) {
    const bool tail = full.size() > name.size() && full.ends_with(name) &&
                      full[full.size() - name.size() - 1] == '/';
    if (full == name || tail) return &value;
  }
  return nullptr;
}

std::string describe(const MetricTable& table) {
  std::string text;
  for (const auto& [name, value] : table.values) {
    text += fmt::format("{}{} = {:.6g}", text.empty() ? "" : "\n", name, value);
  }
  return text;
}

}  // namespace

MetricTable with_prefix(Metrics values, const std::string& prefix) {
  for (auto& [name, value] : values) {
    if (name.find('/') == std::string::npos) name = prefix + name;
  }
  return {std::move(values)};
}

Metrics read_metrics(lua_State* L, int i) {
  if (class_of(L, i) == &class_info<MetricTable>) return arg<MetricTable&>(L, i).values;
  if (lua_type(L, i) != LUA_TTABLE) {
    throw_argument(L, i, "metrics",
                   "what adamw:step or run:evaluate returned, or a table of numbers");
  }
  Metrics values;
  for (lua_pushnil(L); lua_next(L, i) != 0; lua_pop(L, 1)) {
    XRUN_CHECK(lua_type(L, -2) == LUA_TSTRING, "run:log: a key is {}, wanted names",
               type_name(L, -2));
    const std::string name = lua_tostring(L, -2);
    XRUN_CHECK(lua_type(L, -1) == LUA_TNUMBER,
               "run:log: {} is {}, wanted a number; a tensor gives one by :item()", name,
               type_name(L, -1));
    values.emplace_back(name, lua_tonumber(L, -1));
  }
  std::sort(values.begin(), values.end());
  return with_prefix(std::move(values), "recipe/").values;
}

void open_metrics(LuaState& state) {
  Class<MetricTable>(state, "Metrics",
                     "Values to log, in their order. m.loss and m[\"train/loss\"] read one.")
      .fallback([](MetricTable& self, const std::string& name, lua_State* L) {
        const double* value = find_metric(self.values, name);
        if (value == nullptr) return 0;
        push(L, *value);
        return 1;
      })
      .tostring(describe);
}

}  // namespace xrun
