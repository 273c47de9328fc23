// Reads filter, map and template from a recipe's options, and runs filter and map in worker states.

#include "lua/bind/data/data_functions.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/base/strings.h"
#include "core/data/rows/choice_rows.h"
#include "lua/state/args.h"
#include "lua/state/lua_state.h"

namespace xrun {

namespace {

class RowFunctions : public RowTransform {
 public:
  RowFunctions(const WorkerFunction* filter, const WorkerFunction* map)
      : state_(open_worker_state()) {
    if (filter != nullptr) filter_ = load(*filter);
    if (map != nullptr) map_ = load(*map);
  }

  bool apply(Json& row, const std::string& location) override {
    try {
      return run(row);
    } catch (const Error& error) {
      // A call that Ctrl-C ends fails like any other, but the row is not at fault.
      check_interrupt();
      throw Error(fmt::format("{}\n  at the row {}", error.what(), location));
    }
  }

 private:
  LuaRef load(const WorkerFunction& function) {
    const StackGuard guard(*state_);
    function.push(*state_);
    return LuaRef(*state_, -1);
  }

  bool run(Json& row) {
    lua_State* L = *state_;
    const StackGuard guard(L);
    if (filter_) {
      filter_.push(L);
      push_row(L, row);
      protected_call(L, 1, 1);
      // Stricter than Lua: a filter without a `return` would silently drop every row.
      XRUN_CHECK(lua_isboolean(L, -1), "filter: returned {}, wanted true (keep) or false",
                 describe_value(L, lua_gettop(L)));
      if (lua_toboolean(L, -1) == 0) return false;
    }
    if (!map_) return true;
    map_.push(L);
    push_row(L, row);
    protected_call(L, 1, 1);
    XRUN_CHECK(lua_istable(L, -1) || lua_type(L, -1) == LUA_TSTRING,
               "map: returned {}, wanted the row; to leave a row out use filter",
               describe_value(L, lua_gettop(L)));
    // Lua cannot tell 2 from 2.0 or [] from {}: unchanged values are taken from the file's row.
    row = restored_row(to_json(L, -1), row);
    return true;
  }

  std::unique_ptr<LuaState> state_;
  LuaRef filter_, map_;
};

class RowFunctionsSource : public RowTransformSource {
 public:
  RowFunctionsSource(std::shared_ptr<const WorkerFunction> filter,
                     std::shared_ptr<const WorkerFunction> map)
      : filter_(std::move(filter)), map_(std::move(map)) {
    // In the cache's key: a changed function makes another cache.
    if (filter_) source_ += "filter:\n" + filter_->source();
    if (map_) source_ += "map:\n" + map_->source();
  }
  std::unique_ptr<RowTransform> make() const override {
    return std::make_unique<RowFunctions>(filter_.get(), map_.get());
  }
  const std::string& source() const override { return source_; }

 private:
  std::shared_ptr<const WorkerFunction> filter_, map_;
  std::string source_;
};

}  // namespace

std::shared_ptr<const RowTransformSource> make_row_functions(
    std::shared_ptr<const WorkerFunction> filter, std::shared_ptr<const WorkerFunction> map) {
  if (!filter && !map) return nullptr;
  return std::make_shared<RowFunctionsSource>(std::move(filter), std::move(map));
}

namespace {

// Returns true if the option on top of the stack holds functions: any filter or map, or a template
// that is not a name.
bool holds_functions(lua_State* L, std::string_view option) {
  return option == "template" ? lua_isfunction(L, -1) || lua_istable(L, -1) : !lua_isnil(L, -1);
}

SourceFunctions read_functions(lua_State* L, int i, const std::string& option) {
  SourceFunctions result;
  if (lua_isfunction(L, i)) {
    result.all = std::make_shared<const WorkerFunction>(L, i, option);
    return result;
  }
  XRUN_CHECK(lua_istable(L, i),
             "{0}: got {1}, wanted a function, or one per source: {0} = {{ [2] = f }}", option,
             describe_value(L, i));
  for (lua_pushnil(L); lua_next(L, i) != 0; lua_pop(L, 1)) {
    const double key = lua_type(L, -2) == LUA_TNUMBER ? lua_tonumber(L, -2) : 0;
    // 9e15 is about 2^53, up to which a double holds every whole number.
    XRUN_CHECK(key >= 1 && key < 9e15 && std::floor(key) == key,
               "{}: the key {} is not the number of a source; sources count from 1", option,
               describe_value(L, lua_gettop(L) - 1));
    const int64_t number = static_cast<int64_t>(key);
    result.of[number] = std::make_shared<const WorkerFunction>(
        L, lua_gettop(L), fmt::format("{}[{}]", option, number));
  }
  return result;
}

void check_numbers(const SourceFunctions& functions, const char* option, size_t sources) {
  if (functions.of.empty()) return;
  const int64_t last = functions.of.rbegin()->first;
  XRUN_CHECK(last <= static_cast<int64_t>(sources), "{}[{}]: data has {}", option, last,
             counted(static_cast<int64_t>(sources), "source"));
}

}  // namespace

void DataFunctions::apply_to(DataOptions& options) const {
  for (const auto& [name, functions] : kFunctionOptions) {
    check_numbers(this->*functions, name, options.sources.size());
  }
  for (size_t s = 0; s < options.sources.size(); ++s) {
    const int64_t number = static_cast<int64_t>(s) + 1;
    DataSource& source = options.sources[s];
    source.transform = make_row_functions(filter.for_source(number), map.for_source(number));
    if (choices) {
      source.transform = make_choice_rows(source.transform);
      for (const char* const name : kChoiceColumns) {
        if (std::find(source.keep.begin(), source.keep.end(), name) == source.keep.end()) {
          source.keep.emplace_back(name);
        }
      }
    }
    const auto function = chat_template.for_source(number);
    if (function) source.chat_template = make_lua_template(function);
  }
}

DataFunctions DataFunctions::for_other_files(size_t sources) const {
  DataFunctions result;
  result.choices = choices;
  for (const auto& [option, functions] : kFunctionOptions) {
    const SourceFunctions& own = this->*functions;
    XRUN_CHECK(sources == 1 || own.of.empty(),
               "{0} is given per source, but valid.data has other files; open them as a set of "
               "their own: xrun.chat(valid_data, policy, {{ {0} = ... }})",
               option);
    (result.*functions).all = sources == 1 ? own.for_source(1) : own.all;
  }
  return result;
}

DataFunctions read_data_functions(lua_State* L, int i) {
  DataFunctions result;
  if (!lua_istable(L, i)) return result;
  for (const auto& [option, functions] : kFunctionOptions) {
    const StackGuard guard(L);
    lua_getfield(L, i, option);
    if (!holds_functions(L, option)) continue;
    result.*functions = read_functions(L, lua_gettop(L), option);
  }
  return result;
}

Json plain_options(lua_State* L, int i) {
  if (!lua_istable(L, i)) return Json::object();
  const StackGuard guard(L);
  // A copy, since the table is the recipe's; functions cannot be written as JSON.
  push_table_copy(L, i);
  const int copy = lua_gettop(L);
  for (const FunctionOption& option : kFunctionOptions) {
    lua_getfield(L, copy, option.name);
    const bool function = holds_functions(L, option.name);
    lua_pop(L, 1);
    if (!function) continue;
    lua_pushnil(L);
    lua_setfield(L, copy, option.name);
  }
  return to_json(L, copy, false);
}

}  // namespace xrun
