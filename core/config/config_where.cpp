// Resolves the config with and without --set, so that a line can show the value that --set
// replaces.

#include "core/config/config_where.h"

#include <algorithm>
#include <cstdlib>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/config/config.h"
#include "core/config/config_field.h"
#include "core/config/config_set.h"
#include "core/config/excerpt.h"

namespace xrun {

namespace {

class WhereText {
 public:
  WhereText(const ScannedRecipe& recipe, const std::vector<std::string>& sets)
      : recipe_(recipe), config_(Config::resolve(recipe, sets)) {
    if (!sets.empty()) plain_config_ = Config::resolve(recipe);
  }

  std::string text(const std::string& key) {
    const Json* value = config_.find(key);
    if (value == nullptr) throw_missing(key);
    add(key, *value);
    return out_;
  }

 private:
  [[noreturn]] void throw_missing(const std::string& key) const {
    const size_t dot = key.rfind('.');
    const std::string table = dot == std::string::npos ? "" : key.substr(0, dot);
    std::vector<std::string> known = config_field_names(table);
    const Json* around = table.empty() ? &config_.values() : config_.find(table);
    if (around != nullptr && around->is_object()) {
      for (const auto& [name, value] : around->as_object()) known.push_back(name);
    }
    const ConfigField* field = find_config_field(key);
    throw UsageError(fmt::format(
        "{}: the config has no `{}`{}", recipe_.file, key,
        field != nullptr ? ": it is left out and has no default; " + field->doc
                         : did_you_mean(key.substr(dot == std::string::npos ? 0 : dot + 1), known,
                                        table.empty() ? "" : table + ".")));
  }

  // A list of plain values is one value: its origin is that of its first element that is not a
  // default. An element of a default list has the origin of the list.
  static std::string origin_of(const Config& config, const std::string& path, const Json& value) {
    std::string origin = config.origin(path);
    if (!origin.empty()) return origin;
    for (size_t i = 1; value.is_array() && i <= value.size(); ++i) {
      origin = config.origin(fmt::format("{}.{}", path, i));
      if (origin != "default") break;
    }
    return origin.empty() ? config.origin(path.substr(0, path.rfind('.'))) : origin;
  }

  static bool is_plain_list(const Json& value) {
    return value.is_array() &&
           std::none_of(value.as_array().begin(), value.as_array().end(),
                        [](const Json& one) { return one.is_object() || one.is_array(); });
  }

  void add(const std::string& path, const Json& value) {
    const bool leaf = !(value.is_object() || value.is_array()) || value.size() == 0;
    if (leaf || is_plain_list(value)) return add_value(path, value);
    size_t number = 0;
    if (value.is_array()) {
      for (const Json& one : value.as_array()) add(fmt::format("{}.{}", path, ++number), one);
      return;
    }
    for (const auto& [name, one] : value.as_object()) add(path + "." + name, one);
  }

  void add_value(const std::string& path, const Json& value) {
    const std::string origin = origin_of(config_, path, value);
    out_ += fmt::format("{} = {}  {}\n", path, dump_json(value), origin);
    add_line(origin);
    if (origin == "default") {
      if (const ConfigField* field = find_config_field(path)) out_ += "    " + field->doc + "\n";
    }
    const Json* before = origin == "--set" ? plain_config_.find(path) : nullptr;
    if (before != nullptr) add_replaced(*before, origin_of(plain_config_, path, *before));
    for (const ReplacedValue& one : recipe_.replaced) {
      if (one.path == path || one.path.starts_with(path + ".") ||
          path.starts_with(one.path + ".")) {
        add_replaced(literal_json(one.value), literal_origin(recipe_, one.value));
      }
    }
  }

  void add_replaced(const Json& value, const std::string& origin) {
    out_ += fmt::format("    replaces {}  {}\n", dump_json(value), origin);
  }

  // Adds the line of the recipe or of a base: "    8 | optim = { lr = 1e-4 },".
  void add_line(const std::string& origin) {
    const size_t colon = origin.rfind(':');
    if (colon == std::string::npos) return;
    const std::string file = origin.substr(0, colon);
    const int line = std::atoi(origin.c_str() + colon + 1);
    const std::string* text = file == recipe_.file ? &recipe_.text : nullptr;
    for (const ConfigSource& base : recipe_.bases) {
      if (base.file == file) text = &base.text;
    }
    if (text == nullptr || line <= 0) return;
    out_ += fmt::format("    {} | {}\n", line, trimmed(line_of(*text, line)));
  }

  const ScannedRecipe& recipe_;
  Config config_;
  Config plain_config_;
  std::string out_;
};

}  // namespace

std::string where_text(const ScannedRecipe& recipe, const std::vector<std::string>& sets,
                       const std::string& key) {
  return WhereText(recipe, sets).text(key);
}

}  // namespace xrun
