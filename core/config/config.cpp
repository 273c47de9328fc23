// The values are the checked literals, then the defaults of the keys that they leave out.

#include "core/config/config.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/config/config_check.h"
#include "core/config/config_field.h"
#include "core/config/config_set.h"

namespace xrun {

std::string read_only_hint(const std::string& path, const std::string& value) {
  return fmt::format("change the value in xrun.config or with --set {}={}, or use a local variable",
                     path, value);
}

// Runs none of the recipe, so a wrong config fails before any weights load.
Config Config::resolve(const ScannedRecipe& recipe, const std::vector<std::string>& sets) {
  const Literal root = checked_config(recipe, sets);
  Config config;
  // Recursive over tables: each leaf has the line it came from.
  const auto note = [&](auto&& again, const std::string& path, const Literal& literal) -> void {
    if (!literal.is_table) config.origins_[path] = literal_origin(recipe, literal);
    for (const Literal::Entry& entry : literal.entries) {
      again(again, path.empty() ? entry.key : path + "." + entry.key, entry.value);
    }
    // An empty table has no leaf that could carry its origin.
    if (literal.is_table && literal.entries.empty() && !path.empty()) {
      config.origins_[path] = literal_origin(recipe, literal);
    }
  };
  note(note, "", root);
  for (const Literal::Entry& entry : root.entries) {
    config.values_.set(entry.key, literal_json(entry.value));
  }
  // After the checks, so that a default never hides a missing key.
  for (const std::string& path : add_defaults(config.values_, "")) {
    config.origins_[path] = "default";
  }
  return config;
}

// Paths are dotted: "data.1.path".
const Json* Config::find(std::string_view path) const {
  const Json* value = &values_;
  while (value != nullptr && !path.empty()) {
    const size_t dot = std::min(path.find('.'), path.size());
    const std::string key(path.substr(0, dot));
    if (dot + 1 == path.size()) return nullptr;  // "data."
    path.remove_prefix(std::min(dot + 1, path.size()));
    if (value->is_array()) {
      // Lists count from 1, as in Lua. "01" is not a key: origins have each element by one path.
      const auto index = static_cast<size_t>(whole_number_of(key).value_or(0));
      const bool found = index >= 1 && index <= value->size() && key[0] != '0';
      value = found ? &value->as_array()[index - 1] : nullptr;
    } else {
      value = value->find(key);
    }
  }
  return value;
}

// The doc of a key that is declared but absent says what to set.
const Json& Config::at(std::string_view path) const {
  const Json* value = find(path);
  if (value != nullptr) return *value;
  const ConfigField* field = find_config_field(path);
  throw UsageError(
      fmt::format("the config has no `{}`{}", path, field == nullptr ? "" : ": " + field->doc));
}

std::string Config::origin(std::string_view path) const {
  const auto found = origins_.find(std::string(path));
  return found == origins_.end() ? "" : found->second;
}

Json Config::to_json() const {
  Json origins = Json::object();
  for (const auto& [path, from] : origins_) origins.set(path, from);
  Json out = Json::object();
  out.set("values", values_);
  out.set("origins", std::move(origins));
  return out;
}

}  // namespace xrun
