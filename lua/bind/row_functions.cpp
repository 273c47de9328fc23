#include "lua/bind/row_functions.h"

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "lua/state/args.h"
#include "lua/state/lua_state.h"
#include "lua/bind/restored_row.h"
#include "lua/state/row_json.h"

namespace xrun {

namespace {

class RowFunctions : public RowTransform {
 public:
  RowFunctions(const WorkerFunction* filter, const WorkerFunction* map)
      : state_(open_worker_state()) {
    if (filter != nullptr) filter_ = load(*filter);
    if (map != nullptr) map_ = load(*map);
  }

  bool apply(Json& row, const std::string& place) override {
    try {
      return run(row);
    } catch (const Error& error) {
      check_interrupt();
      throw Error(fmt::format("{}\n  at the row {}", error.what(), place));
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

}  // namespace xrun
