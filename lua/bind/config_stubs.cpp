#include "lua/bind/config_stubs.h"

#include <fmt/core.h>

#include <map>

#include "core/config/config_field.h"

namespace xrun {
namespace {

// The elements of valid.data are those of data.
std::string list_class(const std::string& path) { return path == "valid.data" ? "data" : path; }

// `root`: "xrun.Config" or "xrun.Resolved", of the tables inside.
std::string type_of(const ConfigField& field, const std::string& root) {
  using K = FieldKind;
  const bool has_fields = !config_field_names(field.path).empty();
  const std::string named = has_fields ? root + "." + field.path : "table";
  switch (field.kind) {
    case K::kText: {
      std::string choices;
      for (const std::string& choice : field.choices) {
        choices += (choices.empty() ? "\"" : "|\"") + choice + "\"";
      }
      return choices.empty() ? "string" : choices;
    }
    case K::kWhole: return "integer";
    case K::kNumber: return "number";
    case K::kFlag: return "boolean";
    case K::kTable: return named;
    case K::kFlagOrTable: return "boolean|" + named;
    case K::kList: return root + "." + list_class(field.path) + "[]";
    case K::kNumbers: return "number[]";
    case K::kTexts: return "string[]";
    case K::kRenames: return "table<string, string>";
    case K::kFlags: return "table<string, boolean>";
  }
  return "any";
}

std::string field_line(const ConfigField& field, const std::string& name, bool always,
                       const std::string& root) {
  return fmt::format(
      "---@field {}{} {} {}{}\n", name, always ? "" : "?", type_of(field, root), field.doc,
      field.otherwise.is_null() ? "" : fmt::format(" Default {}.", dump_json(field.otherwise)));
}

}  // namespace

std::string config_stubs() {
  std::map<std::string, std::string> given, resolved;  // fields by the class that has them
  for (const ConfigField& field : config_fields()) {
    const size_t dot = field.path.rfind('.');
    const std::string name = field.path.substr(dot + 1);  // npos + 1 is 0
    std::string owner = dot == std::string::npos ? "" : "." + field.path.substr(0, dot);
    if (owner.ends_with("[]")) owner.resize(owner.size() - 2);
    given[owner] += field_line(field, name, field.required && !owner.empty(), "xrun.Config");
    // What is required and not given is an error where it is read, so it is never nil.
    const bool always = field.required || !field.otherwise.is_null();
    resolved[owner] += field_line(field, name, always, "xrun.Resolved");
  }
  const std::string own = "---@field [string] any The recipe's own keys.\n";
  std::string out;
  for (const auto& [owner, lines] : given) {
    out += fmt::format("\n---@class xrun.Config{}\n{}{}", owner, lines, owner.empty() ? own : "");
  }
  for (const auto& [owner, lines] : resolved) {
    out += fmt::format("\n---@class xrun.Resolved{} : xrun.Config{}\n{}{}", owner, owner, lines,
                       owner.empty() ? own : "");
  }
  return out;
}

}  // namespace xrun
