// Types are read off the signatures: a word that is a class, in lower case too, is that class; what
// is no word of Lua's or ours is any.

#include "lua/bind/editor_stubs.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "core/config/lua_words.h"
#include "lua/bind/config_stubs.h"
#include "lua/tensor/op_table.h"
#include "lua/state/signature.h"

namespace xrun {
namespace {

// What words of signatures are in LuaLS.
const std::map<std::string, std::string, std::less<>> kWordTypes = {
    {"number", "number"}, {"string", "string"}, {"boolean", "boolean"},   {"table", "table"},
    {"list", "table"},    {"nil", "nil"},       {"text", "string"},       {"name", "string"},
    {"dir", "string"},    {"step", "integer"},  {"function", "function"}, {"objective", "function"},
    {"options", "table"}, {"set", "DataSet"},   {"iterator", "function"}, {"metrics", "Metrics"},
    {"parts", "table"},   {"...", "any"},
};

constexpr std::string_view kConfigKey = "cfg.";  // a parameter that is a table of the config

// The words between which "|" or "or" stands; a shape behind a type is none: "Tensor [n]".
std::vector<std::string> alternatives(std::string text) {
  for (size_t at = 0; (at = text.find(" or ", at)) != std::string::npos;) text.replace(at, 4, "|");
  std::vector<std::string> words;
  for (size_t from = 0; from <= text.size();) {
    const size_t bar = std::min(text.find('|', from), text.size());
    size_t end = from;
    while (end < bar && (in_lua_name(text[end]) || text[end] == '.')) ++end;
    words.push_back(text.substr(from, end - from));
    from = bar + 1;
  }
  return words;
}

class Stubs {
 public:
  explicit Stubs(std::vector<DocEntry> entries) : entries_(std::move(entries)) {
    std::sort(entries_.begin(), entries_.end(),
              [](const DocEntry& a, const DocEntry& b) { return a.name < b.name; });
    for (const DocEntry& entry : entries_) {
      known_.insert(entry.name);
      if (entry.kind != DocKind::kClass) continue;
      std::string lower = entry.name;
      for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      classes_[lower] = classes_[entry.name] = entry.name;
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

  std::string type_of(const SignaturePart& part) const {
    if (part.text.starts_with('{')) return "table";
    if (part.text == "...") return "any";
    if (part.text.starts_with(kConfigKey)) {
      return "xrun.Config." + part.text.substr(kConfigKey.size());
    }
    std::string out;
    for (const std::string& word : alternatives(part.text)) {
      const auto ours = classes_.find(word);
      const auto plain = kWordTypes.find(word);
      const std::string type = ours != classes_.end()      ? ours->second
                               : plain != kWordTypes.end() ? plain->second
                                                           : "any";
      if (type == "any") return "any";
      out += (out.empty() ? "" : "|") + type;
    }
    return out;
  }

  static std::string parameter_name(const SignaturePart& part) {
    if (part.text == "...") return "...";
    if (part.text.starts_with('{')) return "options";
    const size_t from = part.text.starts_with(kConfigKey) ? kConfigKey.size() : 0;
    size_t end = from;
    while (end < part.text.size() && in_lua_name(part.text[end])) ++end;
    const std::string name = part.text.substr(from, end - from);
    return name.empty() || is_lua_keyword(name) ? "f" : name;
  }

  // What is one of several, nil aside, is used as one of them: an editor would object to each use.
  std::string result_type(const SignaturePart& part) const {
    const std::string type = type_of(part);
    const size_t bar = type.find('|');
    return bar == std::string::npos || type.substr(bar + 1) == "nil" ? type : "any";
  }

  // "iterator of step, Batch" gives functions that a `for` calls.
  std::string results(const Signature& signature) const {
    std::string out;
    constexpr std::string_view kIterator = "iterator of ";
    for (size_t i = 0; i < signature.results.size(); ++i) {
      SignaturePart part = signature.results[i];
      if (part.text.starts_with(kIterator)) {
        part.text = part.text.substr(kIterator.size());
        std::string each = type_of(part);
        while (++i < signature.results.size()) each += ", " + type_of(signature.results[i]);
        return out + "---@return fun(): " + each + "\n";
      }
      out += part.text == "..." ? "---@return any ...\n" : "---@return " + result_type(part) + "\n";
    }
    return out;
  }

  // One function: words, parameters, results, an empty body.
  std::string function(const DocEntry& entry) const {
    std::string out = fmt::format("\n---{}\n", entry.doc), names;
    if (entry.name == "xrun.config") {
      return out +
             "---@param config xrun.Config\n---@return xrun.Resolved\n"
             "function xrun.config(config) end\n";
    }
    const Signature signature = read_signature(entry.signature);
    std::set<std::string> used;
    for (const SignaturePart& part : signature.parameters) {
      std::string name = parameter_name(part);
      while (!used.insert(name).second) name += "_";
      names += (names.empty() ? "" : ", ") + name;
      out += fmt::format("---@param {}{} {} {}\n", name, part.optional ? "?" : "", type_of(part),
                         part.text == name ? "" : part.text);
      while (out.ends_with(" \n")) out.erase(out.size() - 2, 1);
    }
    return out + results(signature) + fmt::format("function {}({}) end\n", entry.name, names);
  }

  std::string fields_of(const std::string& owner) const {
    std::string out;
    for (const DocEntry& entry : entries_) {
      const std::string member = member_of(entry);
      const bool field = entry.kind == DocKind::kProperty || entry.kind == DocKind::kValue;
      if (!field || owner_of(entry) != owner || member.find('.') != std::string::npos) continue;
      out += fmt::format("---@field {} {} {}\n", member, type_of({entry.signature}), entry.doc);
    }
    return out;
  }

  std::string class_text(const DocEntry& entry) const {
    std::string out =
        fmt::format("\n---{}\n---@class {}\n{}", entry.doc, entry.name, fields_of(entry.name));
    // Kept columns and entries that a recipe names itself.
    for (const char* open : {"Batch", "View", "Micro", "Metrics"}) {
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

  // ATen's, that no binding of ours documents.
  std::string operators() const {
    std::string out;
    for (const std::string& name : public_op_names()) {
      const OpPacket* packet = find_public_op(name);
      if (packet == nullptr || packet->overloads.empty() || is_lua_keyword(name)) continue;
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
  std::map<std::string, std::string, std::less<>> classes_;  // also in lower case
};

}  // namespace

std::string editor_stubs(std::vector<DocEntry> entries) { return Stubs(std::move(entries)).text(); }

}  // namespace xrun
