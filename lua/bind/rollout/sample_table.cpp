// The values of a batch are read once, since a step makes a table for every answer.

#include "lua/bind/rollout/sample_table.h"

#include <ATen/core/Tensor.h>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/data/rows/missing_column.h"
#include "lua/state/args.h"
#include "lua/state/metatable.h"

namespace xrun {

namespace {

// The data that samples come from, stored in the Lua state because worker states have no session.
struct SampleData {
  const Ledger* ledger = nullptr;
};

// ": no row of sums.jsonl has ...; keep the right one ...", else the nearest of the known names.
std::string missing_field_text(lua_State* L, const std::string& name,
                               const std::vector<std::string>& known) {
  const Ledger* const ledger = LuaState::of(L).service<SampleData>().ledger;
  const MissingColumn missing = ledger != nullptr ? missing_column(*ledger, name) : MissingColumn();
  if (!missing.why.empty()) return fmt::format(": {}; {}", missing.why, missing.fix);
  if (const std::string near = did_you_mean(name, known); !near.empty()) return near;
  return ", which is neither a field of samples nor a column that `keep` of the data names";
}

int missing_sample_field(lua_State* L) {
  check_metamethod_table(L);
  if (lua_type(L, 2) != LUA_TSTRING) return lua_pushnil(L), 1;
  const std::string name = lua_tostring(L, 2);
  std::vector<std::string> known;
  for (lua_pushnil(L); lua_next(L, 1) != 0; lua_pop(L, 1)) {
    if (lua_type(L, -2) == LUA_TSTRING) known.emplace_back(lua_tostring(L, -2));
  }
  throw Error(
      fmt::format("the sample has no field `{}`{}", name, missing_field_text(L, name, known)));
}

}  // namespace

void guard_sample_fields(lua_State* L, const Ledger& ledger) {
  LuaState::of(L).service<SampleData>().ledger = &ledger;
  if (luaL_newmetatable(L, "xrun.sample") != 0) {
    push_function(L,
                  {.name = "xrun.sample.__index",
                   .kind = DocKind::kMetamethod,
                   .parameters = {{"name", "string"}},
                   .doc = "Names a field that a sample does not have."},
                  missing_sample_field);
    lua_setfield(L, -2, "__index");
  }
  set_hidden_metatable(L);
}

FieldTable::FieldTable(const Batch& batch) {
  if (batch.micros().empty()) return;
  for (const std::string& name : batch.field_names()) {
    if (auto texts = batch.strings(name)) {
      texts_.emplace_back(name, std::move(*texts));
      continue;
    }
    bool by_row = false;
    batch.micros().front()->field(name, &by_row);
    if (by_row) continue;
    const at::Tensor values = batch.field(name).to(at::kCPU, at::kDouble).contiguous();
    const double* const data = values.const_data_ptr<double>();
    numbers_.emplace_back(name, std::vector<double>(data, data + values.numel()));
  }
}

void FieldTable::add_fields(lua_State* L, size_t i) const {
  for (const auto& [name, values] : numbers_) {
    set_field(L, name.c_str(), values[i]);
  }
  for (const auto& [name, values] : texts_) {
    set_field(L, name.c_str(), values[i]);
  }
}

void SampleTable::push_sample(lua_State* L, int64_t i) const {
  const auto at = static_cast<size_t>(i);
  const Rollout& one = *rollouts_.rollouts()[at];
  lua_createtable(L, 0, 12);
  fields_.add_fields(L, at);
  set_field(L, "index", one.sample);
  set_field(L, "prompt_ids", *one.prompt_ids);
  set_field(L, "ids", one.ids);
  guard_sample_fields(L, ledger_);
  if (one.turns.empty()) return;
  Json turns = Json::array();
  for (const RolloutTurn& turn : one.turns) {
    turns.push_back(Json(Json::Object{{"text", turn.text},
                                      {"finish", turn.finish},
                                      {"tool_calls", turn.calls},
                                      {"reply", turn.reply}}));
  }
  set_field(L, "turns", turns);
}

}  // namespace xrun
