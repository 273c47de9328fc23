#pragma once
// The resolved config of a recipe: every value with its origin, which is a line, --set or
// "default".

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/config/config_scan.h"

namespace xrun {

class Config {
 public:
  // Checks a recipe's config (unread keys, unknown keys, types, ranges) after applying `sets`, each
  // "key=value" whose value is a Lua literal or bare text, and adds the defaults. Throws UsageError
  // as checked_config (config_check.h) does.
  static Config resolve(const ScannedRecipe& recipe, const std::vector<std::string>& sets = {});

  // All values, an object. The engine's tables have their defaults; keys without a value are
  // absent.
  const Json& values() const { return values_; }
  // A value by path ("optim.lr", "data.1.path"), or nullptr if it is absent.
  const Json* find(std::string_view path) const;
  // Returns the value of a path; throws UsageError with the key and its doc if it is absent.
  const Json& at(std::string_view path) const;
  std::string text(std::string_view path) const { return at(path).as_string(); }
  double number(std::string_view path) const { return at(path).as_double(); }
  int64_t whole(std::string_view path) const { return at(path).as_int(); }
  bool flag(std::string_view path) const { return at(path).as_bool(); }

  // The origin of the scalar at a path: "default", "dpo.lua:12" or "--set"; "" if it is absent.
  std::string origin(std::string_view path) const;
  // {"values": {...}, "origins": {"beta": "dpo.lua:14", ...}}: config.json.
  Json to_json() const;

 private:
  Json values_ = Json::object();
  std::map<std::string, std::string> origins_;
};

// Returns the fix for a recipe that assigns `value` to a key. Keys are read-only, since the records
// of the run would lack the value.
std::string read_only_hint(const std::string& path, const std::string& value);

}  // namespace xrun
