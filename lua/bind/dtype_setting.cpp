// In run.json: {"dtype": "bf16"}. A run of a version that did not write it began in the own type of
// machine.device.

#include "lua/bind/dtype_setting.h"

#include <optional>

#include "core/base/error.h"
#include "core/model/weights/hf_config.h"
#include "core/run/run_dir.h"
#include "lua/bind/recipe.h"
#include "lua/bind/session.h"

namespace xrun {

namespace {

constexpr const char* kDtype = "dtype";

std::optional<c10::ScalarType> configured(lua_State* L) {
  const Json* value = recipe_context(L).config.find(kDtype);
  if (value == nullptr || value->is_null()) return std::nullopt;
  return dtype_from_name(value->as_string());
}

c10::ScalarType own_type(const std::string& device) {
  return device == "cpu" ? c10::ScalarType::Float : c10::ScalarType::BFloat16;
}

// Nothing if no run is resumed, or one that had not begun.
std::optional<c10::ScalarType> type_of_run(const RunDir* dir) {
  if (dir == nullptr || !dir->resuming()) return std::nullopt;
  const Json& record = dir->record();
  if (record.find(kDtype) == nullptr && record.find("machine") == nullptr) return std::nullopt;
  try {
    if (const Json* kept = record.find(kDtype)) return dtype_from_name(kept->as_string());
    return own_type(record.at("machine").at("device").as_string());
  } catch (const Error& error) {
    throw Error(fmt::format("{}: the type that the run began in cannot be read: {}; set dtype",
                            dir->file("run.json").string(), error.what()));
  }
}

c10::ScalarType type_without_setting(lua_State* L, const RunDir* dir) {
  return type_of_run(dir).value_or(own_type(recipe_context(L).options.device));
}

}  // namespace

c10::ScalarType read_dtype(lua_State* L) {
  if (const auto set = configured(L)) return *set;
  Session& session = session_of(L);
  const std::string& device = recipe_context(L).options.device;
  const c10::ScalarType type = type_without_setting(L, run_dir_of(session));
  if (type != own_type(device)) {
    add_notice(session, fmt::format("dtype stays {}, in which the run began; one that begins on {} "
                                    "without the setting takes {}",
                                    dtype_name(type), device, dtype_name(own_type(device))));
  }
  return type;
}

void keep_dtype(lua_State* L, RunDir& dir) {
  if (configured(L)) return;
  dir.record().set(kDtype, dtype_name(type_without_setting(L, &dir)));
}

}  // namespace xrun
