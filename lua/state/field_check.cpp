#include "lua/state/field_check.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/config/config_field.h"
#include "core/base/error.h"
#include "core/base/suggest.h"

namespace xrun {

namespace {

void check_names(const Json& table, const std::string& path,
                 const std::vector<std::string>& names) {
  for (const auto& [key, value] : table.as_object()) {
    if (std::find(names.begin(), names.end(), key) == names.end()) {
      const std::string near = nearest_name(key, names);
      throw Error(fmt::format("{} has no `{}`{}", path, key,
                              near.empty() ? "" : "\nhint: did you mean `" + near + "`?"));
    }
    check_fields(value, path + "." + key);
  }
  for (const std::string& name : names) {
    const ConfigField* field = find_config_field(path + "." + name);
    XRUN_CHECK(field == nullptr || !field->required || table.find(name) != nullptr,
               "{}.{} is missing: {}", path, name, field->doc);
  }
}

}  // namespace

void check_fields(const Json& value, const std::string& path) {
  if (const ConfigField* field = find_config_field(path)) {
    XRUN_CHECK(fits(*field, value), "{}: got {}, wanted {}", path, dump_json(value),
               wanted_text(*field));
  }
  if (value.is_object()) {
    const std::vector<std::string> names = config_field_names(path);
    if (!names.empty()) check_names(value, path, names);  // none: a table of free names
  } else if (value.is_array()) {
    int64_t number = 0;
    for (const Json& element : value.as_array()) {
      const std::string inner = fmt::format("{}.{}", path, ++number);
      const bool table = !config_field_names(inner).empty();
      XRUN_CHECK(!table || element.is_object(), "{}: got {}, wanted a table, {}", inner,
                 dump_json(element), element_example(inner));
      check_fields(element, inner);
    }
  }
}

void check_batch_fields(const Json& batch) {
  if (!batch.is_object()) return;
  for (const auto& [key, value] : batch.as_object()) {
    const bool length = key == "steps" || key == "epochs";
    check_fields(value, length ? key : "batch." + key);
  }
}

}  // namespace xrun
