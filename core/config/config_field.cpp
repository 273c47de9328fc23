// Finds fields by path and checks values against them; config_field_table.cpp declares them.

#include "core/config/config_field.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "core/base/error.h"
#include "core/base/strings.h"

namespace xrun {
namespace {

using K = FieldKind;

// "valid.data.12.path" -> "data[].path".
std::string canonical(std::string_view path) {
  std::string out;
  for (size_t at = 0; at <= path.size();) {
    const size_t dot = std::min(path.find('.', at), path.size());
    const std::string_view key = path.substr(at, dot - at);
    const bool index = !key.empty() && std::all_of(key.begin(), key.end(),
                                                   [](unsigned char c) { return std::isdigit(c); });
    // All elements of a list share one declaration.
    out += index ? "[]" : (out.empty() ? "" : ".") + std::string(key);
    at = dot + 1;
  }
  constexpr std::string_view kValidData = "valid.data[]";
  // A source of the validation set has the fields of any source.
  return out.starts_with(kValidData) ? "data[]" + out.substr(kValidData.size()) : out;
}

bool number_fits(const ConfigField& field, const Json& value) {
  if (!value.is_number()) return false;
  const double got = value.as_double();
  // Each bound is open or closed by its own flag.
  if (!std::isfinite(got) || got > field.most || (field.below_most && got == field.most)) {
    return false;
  }
  return field.above_least ? got > field.least : got >= field.least;
}

// Returns true if a value of the field must be a table with named keys.
bool is_table_of(const ConfigField& field, const Json& value) {
  switch (field.kind) {
    case K::kTable: return true;
    case K::kFlagOrTable: return !value.is_bool();
    case K::kTextOrTable: return !value.is_string();
    default: return false;
  }
}

bool is_choice(const ConfigField& field, const Json& value) {
  return value.is_string() && std::find(field.choices.begin(), field.choices.end(),
                                        value.as_string()) != field.choices.end();
}

bool is_list(const Json& value, const auto& element_fits) {
  return value.is_array() &&
         std::all_of(value.as_array().begin(), value.as_array().end(), element_fits);
}

// Returns true for a table with named keys whose values fit; { } is one.
bool is_named(const Json& value, const auto& member_fits) {
  // Lua and JSON cannot tell an empty table from an empty list.
  return (value.is_array() && value.size() == 0) ||
         (value.is_object() &&
          std::all_of(value.as_object().begin(), value.as_object().end(),
                      [&](const Json::Member& member) { return member_fits(member.second); }));
}

}  // namespace

const ConfigField* find_config_field(std::string_view path) {
  // Linear: there are few fields, and only configs are checked.
  const std::string wanted = canonical(path);
  for (const ConfigField& field : config_fields()) {
    if (field.path == wanted) return &field;
  }
  return nullptr;
}

std::vector<std::string> config_field_names(std::string_view path) {
  const std::string prefix = path.empty() ? "" : canonical(path) + ".";
  std::vector<std::string> names;
  for (const ConfigField& field : config_fields()) {
    if (!field.path.starts_with(prefix)) continue;
    const std::string rest = field.path.substr(prefix.size());
    // Only direct members.
    if (!rest.empty() && rest.find('.') == std::string::npos) names.push_back(rest);
  }
  return names;
}

std::vector<std::string> data_set_field_names() {
  std::vector<std::string> names;
  for (const ConfigField& field : config_fields()) {
    if (field.of_data_set) names.push_back(field.path);
  }
  return names;
}

Json default_value(std::string_view path) {
  const ConfigField* field = find_config_field(path);
  return field == nullptr ? Json() : field->default_value;
}

std::vector<std::string> add_defaults(Json& table, const std::string& path) {
  std::vector<std::string> added;
  const auto add_inside = [&added](Json& inner, const std::string& at) {
    for (std::string& name : add_defaults(inner, at)) added.push_back(std::move(name));
  };
  if (table.is_array()) table = Json::object();  // an empty { }
  for (const std::string& name : config_field_names(path)) {
    const std::string inner = path.empty() ? name : path + "." + name;
    const ConfigField& field = *find_config_field(inner);
    if (table.find(name) == nullptr) {
      // A key without a default stays absent.
      if (field.default_value.is_null()) continue;
      table.set(name, field.default_value);
      // A table is not reported; its members are.
      if (field.kind != FieldKind::kTable) added.push_back(inner);
    }
    // A given table may lack members too.
    Json& value = *table.find(name);
    if (is_table_of(field, value) && !config_field_names(inner).empty()) {
      add_inside(value, inner);
    } else if (takes_free_names(field) && value.is_array()) {
      value = Json::object();
    } else if (!config_field_names(inner + ".1").empty() && value.is_array()) {
      for (size_t i = 0; i < value.size(); ++i) {
        add_inside(value.as_array()[i], fmt::format("{}.{}", inner, i + 1));
      }
    }
  }
  return added;
}

const std::vector<std::string>& batch_counts() {
  static const std::vector<std::string> names = {"pairs", "sequences", "prompts", "groups",
                                                 "tokens"};
  return names;
}

bool takes_free_names(const ConfigField& field) {
  return field.kind == K::kFlags || field.kind == K::kRenames;
}

std::string element_example(std::string_view path) {
  std::string members;
  for (const std::string& name : config_field_names(path)) {
    const ConfigField* field = find_config_field(std::string(path) + "." + name);
    // Only the required ones, with values in range: people paste the example.
    if (field == nullptr || !field->required) continue;
    const std::string value = field->kind == K::kText      ? "\"...\""
                              : field->kind == K::kNumbers ? "{ 1, 0.5 }"
                                                           : fmt::format("{}", field->least);
    add_item(members, fmt::format("{} = {}", name, value));
  }
  return members.empty() ? "" : "{ " + members + " }";
}

std::string wanted_text(const ConfigField& field) {
  std::string choices;
  for (size_t i = 0; i < field.choices.size(); ++i) {
    const bool last = i + 1 == field.choices.size();
    choices += (i == 0 ? "" : last ? " or " : ", ") + ("\"" + field.choices[i] + "\"");
  }
  std::string range;
  if (field.above_least) {
    range = fmt::format(" above {}", field.least);
    if (std::isfinite(field.most)) range += fmt::format(", up to {}", field.most);
  } else if (std::isfinite(field.least) && field.below_most) {
    range = fmt::format(" of at least {} and below {}", field.least, field.most);
  } else if (std::isfinite(field.least)) {
    range = std::isfinite(field.most) ? fmt::format(" from {} to {}", field.least, field.most)
                                      : fmt::format(" of at least {}", field.least);
  }
  switch (field.kind) {
    case K::kText: return choices.empty() ? "text" : choices;
    case K::kFlag: return "true or false";
    case K::kTable: return "a table with named keys";
    case K::kFlagOrText: return "true, false or " + choices;
    case K::kFlagOrTable: return "true, false or a table with named keys";
    case K::kTextOrTable: return "text or a table with named keys";
    case K::kList: return "a list of tables, { " + element_example(field.path + "[]") + " }";
    case K::kNumbers:
      return fmt::format("a list of {}numbers{}",
                         field.elements == 0 ? "" : fmt::format("{} ", field.elements), range);
    case K::kTexts: return "a list of text, { \"...\" }";
    case K::kTextOrTexts: return "text or a list of text, { \"...\" }";
    case K::kRenames: return "a table of name = \"text\"";
    case K::kFlags: return "a table of name = true or false";
    case K::kWhole: return "a whole number" + range;
    case K::kNumber: return "a number" + range;
  }
  return "";
}

bool fits(const ConfigField& field, const Json& value) {
  switch (field.kind) {
    case K::kText: return value.is_string() && (field.choices.empty() || is_choice(field, value));
    case K::kFlagOrText: return value.is_bool() || is_choice(field, value);
    case K::kWhole: return value.is_int() && number_fits(field, value);
    case K::kNumber: return number_fits(field, value);
    case K::kFlag: return value.is_bool();
    case K::kFlagOrTable:
    case K::kTextOrTable:
      if (!is_table_of(field, value)) return true;
      [[fallthrough]];
    case K::kTable: return is_named(value, [](const Json&) { return true; });
    // A run needs a source of data; other lists may be empty.
    case K::kList: return value.is_array() && (field.path != "data" || value.size() > 0);
    case K::kNumbers:
      return (field.elements == 0 || value.size() == field.elements) &&
             is_list(value, [&](const Json& element) { return number_fits(field, element); });
    case K::kTextOrTexts:
      if (value.is_string()) return true;
      [[fallthrough]];
    case K::kTexts: return is_list(value, [](const Json& element) { return element.is_string(); });
    case K::kRenames:
      return is_named(value, [](const Json& element) { return element.is_string(); });
    case K::kFlags: return is_named(value, [](const Json& element) { return element.is_bool(); });
  }
  return false;
}

std::string meant_member(const ConfigField& table, const Json& value) {
  // The unit of the rows decides which member is the size of a step, and the config does not know
  // it.
  if (table.kind != K::kTable || table.path == "batch") return "";
  if (!value.is_number() && !value.is_string()) return "";
  for (const std::string& name : config_field_names(table.path)) {
    const std::string path = table.path + "." + name;
    if (fits(*find_config_field(path), value)) return path;
  }
  return "";
}

namespace {

// Checks the members of a table against the fields inside `path`.
void check_names(const Json& table, const std::string& path,
                 const std::vector<std::string>& names) {
  for (const auto& [key, value] : table.as_object()) {
    if (std::find(names.begin(), names.end(), key) == names.end()) {
      const std::string near = nearest_name(key, names);
      throw UsageError(fmt::format("{} has no `{}`{}", path, key,
                                   near.empty() ? "" : "\nhint: did you mean `" + near + "`?"));
    }
    check_fields(value, path + "." + key);
  }
  for (const std::string& name : names) {
    const ConfigField* field = find_config_field(path + "." + name);
    // Misspelt names are reported first, since a misspelt key is often the missing one.
    if (field != nullptr && field->required && table.find(name) == nullptr) {
      throw UsageError(fmt::format("{}.{} is missing: {}", path, name, field->doc));
    }
  }
}

}  // namespace

// For tables that a recipe passes at run time; config_check.cpp checks the literals.
void check_fields(const Json& value, const std::string& path) {
  if (const ConfigField* field = find_config_field(path)) {
    if (!fits(*field, value)) {
      const std::string meant = meant_member(*field, value);
      throw UsageError(fmt::format("{}: got {}, wanted {}{}", path, dump_json(value),
                                   wanted_text(*field),
                                   meant.empty() ? "" : "; did you mean `" + meant + "`?"));
    }
  }
  if (value.is_object()) {
    const std::vector<std::string> names = config_field_names(path);
    if (!names.empty()) check_names(value, path, names);  // none: a table of free names
  } else if (value.is_array()) {
    int64_t number = 0;
    for (const Json& element : value.as_array()) {
      const std::string inner = fmt::format("{}.{}", path, ++number);
      const bool table = !config_field_names(inner).empty();
      if (table && !element.is_object()) {
        throw UsageError(fmt::format("{}: got {}, wanted a table, {}", inner, dump_json(element),
                                     element_example(inner)));
      }
      check_fields(element, inner);
    }
  }
}

void check_batch_fields(const Json& batch) {
  if (!batch.is_object()) return;
  for (const auto& [key, value] : batch.as_object()) {
    // steps and epochs are keys of the top level.
    const bool length = key == "steps" || key == "epochs";
    check_fields(value, length ? key : "batch." + key);
  }
}

}  // namespace xrun
