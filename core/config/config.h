#pragma once
// The resolved config of a recipe: every value with its origin (a line, --set or the default).

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
  // Checks a recipe's text (unread keys, unknown keys, types, ranges) and merges `sets`, each
  // "key=value" with the value a Lua literal or bare text. Throws UsageError that begins with
  // "file:line:" or with "--set key=value:", with did-you-mean.
  static Config resolve(const ScannedRecipe& recipe, const std::vector<std::string>& sets = {});

  // All values: an object. Engine tables always have their defaults; keys without a value are
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

  // The origin of a scalar: "default", "dpo.lua:12", "--set"; by path. "" if it is absent.
  std::string origin(std::string_view path) const;
  // {"values": {...}, "origins": {"beta": "dpo.lua:14", ...}}: config.json.
  Json to_json() const;

 private:
  Json values_ = Json::object();
  std::map<std::string, std::string> origins_;
};

// Returns the fix for a recipe that assigns to a key; the records of the run would lack the value.
std::string read_only_hint(const std::string& path, const std::string& value);

}  // namespace xrun
