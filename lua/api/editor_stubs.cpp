// Classes with their fields and methods, then the functions of xrun, then ATen's operators.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/base/json.h"
#include "core/base/strings.h"
#include "core/config/config_field.h"
#include "core/config/lua_source.h"
#include "lua/api/api_text.h"
#include "lua/tensor/op_table.h"

namespace xrun {
namespace {

// The elements of valid.data have the class of those of data.
std::string list_class(const std::string& path) { return path == "valid.data" ? "data" : path; }

// Returns the LuaLS type of a field. `root` begins the class names of tables inside it:
// "xrun.Config" or "xrun.Resolved".
std::string type_of(const ConfigField& field, const std::string& root) {
  using K = FieldKind;
  const bool has_fields = !config_field_names(field.path).empty();
  const std::string named = has_fields ? root + "." + field.path : "table";
  switch (field.kind) {
    case K::kText:
    case K::kFlagOrText: {
      std::string choices = field.kind == K::kFlagOrText ? "boolean|" : "";
      for (const std::string& choice : field.choices) {
        choices += (choices.empty() || choices.back() == '|' ? "\"" : "|\"") + choice + "\"";
      }
      return choices.empty() ? "string" : choices;
    }
    case K::kWhole: return "integer";
    case K::kNumber: return "number";
    case K::kFlag: return "boolean";
    case K::kTable: return named;
    case K::kFlagOrTable: return "boolean|" + named;
    case K::kTextOrTable: return "string|" + named;
    case K::kList: return root + "." + list_class(field.path) + "[]";
    case K::kNumbers: return "number[]";
    case K::kTexts: return "string[]";
    case K::kTextOrTexts: return "string|string[]";
    case K::kRenames: return "table<string, string>";
    case K::kFlags: return "table<string, boolean>";
  }
  return "any";
}

std::string field_line(const ConfigField& field, const std::string& name, bool always,
                       const std::string& root) {
  return fmt::format(
      "---@field {}{} {} {}{}\n", name, always ? "" : "?", type_of(field, root), field.doc,
      field.default_value.is_null() ? ""
                                    : fmt::format(" Default {}.", dump_json(field.default_value)));
}

// Returns two families of classes. xrun.Config and its tables are what a recipe writes, where
// nearly every field is optional; xrun.Resolved and its tables are what xrun.config returns, where
// fields with a default are always set.
std::string config_stubs() {
  std::map<std::string, std::string> given, resolved;  // fields by the class that has them
  for (const ConfigField& field : config_fields()) {
    const size_t dot = field.path.rfind('.');
    const std::string name = field.path.substr(dot + 1);  // npos + 1 is 0
    std::string owner = dot == std::string::npos ? "" : "." + field.path.substr(0, dot);
    if (owner.ends_with("[]")) owner.resize(owner.size() - 2);
    given[owner] += field_line(field, name, field.required && !owner.empty(), "xrun.Config");
    // Reading a required key that is not given is an error, so its value is never nil.
    const bool always = field.required || !field.default_value.is_null();
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

class Stubs {
 public:
  explicit Stubs(std::vector<DocEntry> entries) : entries_(std::move(entries)) {
    std::sort(entries_.begin(), entries_.end(),
              [](const DocEntry& a, const DocEntry& b) { return a.name < b.name; });
    for (const DocEntry& entry : entries_) {
      known_.insert(entry.name);
    }
  }

  std::string text() {
    std::string out = "---@meta xrun\n" + config_stubs();
    for (const DocEntry& entry : entries_) {
      if (entry.kind == DocKind::kClass) out += class_text(entry);
    }
    out += "\n---@class xrun\n" + fields_of("xrun") + "local xrun = {}\n";
    for (const DocEntry& entry : entries_) {
      if (owner_of(entry) == "xrun" && entry.kind == DocKind::kFunction) out += function(entry);
    }
    return out + operators() + "\nreturn xrun\n";
  }

 private:
  static std::string owner_of(const DocEntry& entry) {
    return entry.name.substr(0, entry.name.find_first_of(".:"));
  }
  static std::string member_of(const DocEntry& entry) {
    const size_t at = entry.name.find_first_of(".:");
    return at == std::string::npos ? "" : entry.name.substr(at + 1);
  }

  // A result of several types, nil aside, becomes "any": code uses it as one of them, and an editor
  // would object to each use.
  static std::string result_line(const LuaResult& result) {
    const size_t bar = result.type.find('|');
    const bool one = bar == std::string::npos || result.type.substr(bar + 1) == "nil";
    return "---@return " + (one ? result.type : "any") +
           // "[n]" is a shape, not the name of a result.
           (result.note.empty() || result.note[0] == '[' ? "" : " " + result.note) + "\n";
  }

  // Returns "{scale?: boolean, eps?: number}" for a table of options, so that the editor checks its
  // keys. A table with the fields of a config section has the section's class.
  static std::string option_types(const LuaParameter& parameter) {
    if (parameter.type != "table" || parameter.options.empty()) return parameter.type;
    std::string out;
    for (const LuaOption& option : parameter.options) {
      add_item(out, option.name + "?: " + option.type);
    }
    return "{" + out + "}";
  }

  // Returns a function's documentation, parameters and results, with an empty body.
  static std::string function(const DocEntry& entry) {
    std::string out = fmt::format("\n---{}\n", entry.doc), names;
    for (const LuaParameter& parameter : entry.parameters) {
      add_item(names, parameter.name);
      out += fmt::format("---@param {}{} {}\n", parameter.name, parameter.optional ? "?" : "",
                         option_types(parameter));
    }
    for (const LuaResult& result : entry.results) out += result_line(result);
    return out + fmt::format("function {}({}) end\n", entry.name, names);
  }

  std::string fields_of(const std::string& owner) const {
    std::string out;
    for (const DocEntry& entry : entries_) {
      const std::string member = member_of(entry);
      const bool field = entry.kind == DocKind::kProperty || entry.kind == DocKind::kValue;
      if (!field || owner_of(entry) != owner || member.find('.') != std::string::npos) continue;
      out += fmt::format("---@field {} {} {}\n", member, signature_text(entry), entry.doc);
    }
    return out;
  }

  std::string class_text(const DocEntry& entry) const {
    std::string out =
        fmt::format("\n---{}\n---@class {}\n{}", entry.doc, entry.name, fields_of(entry.name));
    // A recipe names extra columns and metrics itself.
    for (const char* open : {"Batch", "View", "Micro", "Metrics", "Rollouts"}) {
      if (entry.name == open) out += "---@field [string] any\n";
    }
    if (entry.name == "Tensor") {
      for (const char* sign : {"add", "sub", "mul", "div", "mod", "pow"}) {
        out += fmt::format("---@operator {}(any): Tensor\n", sign);
      }
      out += "---@operator unm: Tensor\n";
    }
    out += fmt::format("local {} = {{}}\n", entry.name);
    for (const DocEntry& member : entries_) {
      if (member.kind == DocKind::kMethod && owner_of(member) == entry.name) {
        out += function(member);
      }
    }
    return out;
  }

  // Returns the operators of ATen that no binding of ours documents.
  std::string operators() const {
    std::string out;
    for (const std::string& name : public_op_names()) {
      const OpPacket* packet = find_public_op(name);
      if (packet == nullptr || packet->overloads.empty() || !is_lua_name(name)) continue;
      const OpOverload& first = packet->overloads.front();
      const size_t tensors = first.schema().returns().size();
      std::string head = "\n---" + overload_text(first) + "\n";
      for (size_t i = 0; i < tensors; ++i) {
        const bool tensor = first.schema().returns()[i].type()->kind() == c10::TypeKind::TensorType;
        head += tensor ? "---@return Tensor\n" : "---@return any\n";
      }
      const bool method = std::any_of(packet->overloads.begin(), packet->overloads.end(),
                                      [](const OpOverload& one) { return one.self >= 0; });
      if (method && !known_.contains("Tensor:" + name)) {
        out += head + "function Tensor:" + name + "(...) end\n";
      }
      if (!known_.contains("xrun." + name)) out += head + "function xrun." + name + "(...) end\n";
    }
    return out;
  }

  std::vector<DocEntry> entries_;
  std::set<std::string> known_;
};

}  // namespace

std::string editor_stubs(std::vector<DocEntry> entries) { return Stubs(std::move(entries)).text(); }

}  // namespace xrun
