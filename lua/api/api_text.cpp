// Entries are sorted, so that the pages do not depend on the order in which modules open.

#include "lua/api/api_text.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "core/config/config_field.h"
#include "lua/state/doc.h"
#include "lua/tensor/op_table.h"

namespace xrun {
namespace {

std::vector<DocEntry> sorted(std::vector<DocEntry> entries) {
  std::sort(entries.begin(), entries.end(),
            [](const DocEntry& a, const DocEntry& b) { return a.name < b.name; });
  return entries;
}

// Escapes text for a cell of a Markdown table.
std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) {
    text.insert(at, "\\");
  }
  return text;
}

std::string field_row(const ConfigField& field) {
  const std::string otherwise =
      field.default_value.is_null() ? "-" : dump_json(field.default_value);
  return fmt::format("| `{}` | `{}` | {} | {} |\n", field.path, otherwise, cell(wanted_text(field)),
                     cell(field.doc));
}

bool is_operator(const DocEntry& entry) {
  const std::string last = entry.name.substr(entry.name.find_last_of(".:") + 1);
  // __index and __newindex find members; a recipe does not use them as operators.
  return entry.kind == DocKind::kMetamethod && last.starts_with("__") && last != "__index" &&
         last != "__newindex";
}

bool is_public(const DocEntry& entry) {
  return entry.kind != DocKind::kMetamethod || is_operator(entry);
}

std::string owner_of(const DocEntry& entry) {
  if (entry.kind == DocKind::kClass) return entry.name;
  return entry.name.substr(0, entry.name.find_first_of(".:"));
}

// Returns a call as a recipe writes it: "Policy:logprob(view: View) -> Tensor [n]", "step() ->
// Metrics" of a verb, ":time CHUNK", "#DataSet -> integer", "Mixture(i: integer) -> integer
// source".
std::string called_text(const DocEntry& entry) {
  std::string name = entry.name;
  if (name.starts_with(':')) {
    return name + (entry.parameters.empty() ? "" : " " + entry.parameters.front().name);
  }
  std::string signature = signature_text(entry);
  if (constexpr std::string_view kVerb = "repl."; name.starts_with(kVerb)) {
    name.erase(0, kVerb.size());
  } else if (name.ends_with(".__call")) {
    name.resize(name.size() - 7);
  } else if (name.ends_with(".__len")) {
    name = "#" + name.substr(0, name.size() - 6);
    signature.erase(0, signature.find(" ->"));
  }
  return name + signature;
}

bool is_read(const DocEntry& entry) {
  return entry.kind == DocKind::kProperty || entry.kind == DocKind::kValue;
}

std::string member_row(const DocEntry& entry) {
  if (!is_read(entry))
    return fmt::format("| `{}` | {} |\n", cell(called_text(entry)), cell(entry.doc));
  return fmt::format("| `{}` | *{}* {} |\n", entry.name, cell(signature_text(entry)),
                     cell(entry.doc));
}

// A verb and a colon command of the prompt are found by their bare names too.
const DocEntry* find_entry(const std::string& name) {
  for (const char* prefix : {"", "repl.", ":"}) {
    if (const DocEntry* entry = find_doc(prefix + name)) return entry;
  }
  return nullptr;
}

// Returns the overloads that Lua can call of "log_sigmoid", "Tensor:log_sigmoid" or
// "xrun.ops.xrun.linear_head"; "" for a name that is not an operator.
std::string explain_operator(const std::string& name) {
  const std::string last = name.substr(name.find_last_of(".:") + 1);
  const OpPacket* packet = nullptr;
  if (constexpr std::string_view kOps = "xrun.ops."; name.starts_with(kOps)) {
    const size_t dot = name.find('.', kOps.size());
    if (dot != std::string::npos) {
      packet = find_op(name.substr(kOps.size(), dot - kOps.size()), name.substr(dot + 1));
    }
  } else if (name == last || name == "Tensor:" + last || name == "xrun." + last) {
    packet = find_public_op(last);
    if (packet == nullptr && name == last) packet = find_op("xrun", last);
  }
  if (packet == nullptr) return "";
  const bool ours = packet->name.starts_with("xrun::");
  std::string out = fmt::format(
      "{}, an operator{}\n",
      ours ? "xrun.ops.xrun." + last : fmt::format("Tensor:{} or xrun.{}", last, last),
      ours ? "" : " of ATen: dims and indices from 0, keyword arguments in a last table");
  for (const OpOverload& overload : packet->overloads) {
    out += "  " + overload_text(overload) + "\n";
  }
  return out;
}

}  // namespace

// The config keys, the free functions and the prompt come first, then the classes by name.
std::string lua_api_markdown(std::vector<DocEntry> entries) {
  std::string out =
      "# Lua API\n"
      "\n"
      "Generated from the doc strings beside each binding and each config field; a test fails when "
      "it is stale. Besides the names below, every operator of ATen is a method of Tensor and a "
      "function of `xrun`: `x:log_sigmoid()`, `xrun.cat({a, b}, 0)`, with dims and indices from 0 "
      "and keyword arguments in a last table.\n"
      "\n"
      "## Config keys\n"
      "\n"
      "| key | default | value | meaning |\n"
      "|---|---|---|---|\n";
  for (const ConfigField& field : config_fields()) out += field_row(field);
  std::map<std::string, std::string> sections, heads;
  for (const DocEntry& entry : sorted(std::move(entries))) {
    if (!is_public(entry)) continue;
    if (entry.kind == DocKind::kClass) {
      heads[entry.name] = entry.doc;
    } else {
      sections[owner_of(entry)] += member_row(entry);
    }
  }
  out += "\n## Functions and values\n\n| name | meaning |\n|---|---|\n";
  for (const char* free : {"require", "xrun"}) {
    out += sections[free];
    sections.erase(free);
  }
  out +=
      "\n## The prompt\n\nVerbs and colon commands of `xrun repl` "
      "([repl.md](repl.md)).\n\n"
      "| name | meaning |\n|---|---|\n" +
      sections["repl"] + sections[""];
  for (const auto& [name, doc] : heads) {
    out += fmt::format("\n## {}\n\n{}\n", name, doc);
    if (!sections[name].empty()) out += "\n| name | meaning |\n|---|---|\n" + sections[name];
  }
  return out;
}

// A config key wins over a Lua name: recipes write it without a prefix.
std::string explain(const std::string& name) {
  if (const ConfigField* field = find_config_field(name)) {
    std::string text =
        fmt::format("{}: {}\n  value: {}", field->path, field->doc, wanted_text(*field));
    const std::vector<std::string> keys = config_field_names(field->path);
    if (field->required) {
      text += "; required";
    } else if (!field->default_value.is_null() && keys.empty()) {
      text += "; default " + dump_json(field->default_value);
    }
    text += '\n';
    if (!keys.empty()) {
      text += fmt::format("  keys: {}; xrun explain {}.{}\n", fmt::join(keys, ", "), field->path,
                          keys.front());
    }
    return text;
  }
  const DocEntry* entry = find_entry(name);
  if (entry != nullptr && entry->kind == DocKind::kClass) {
    return fmt::format("{}: {}\n", entry->name, entry->doc);
  }
  if (entry != nullptr) {
    return fmt::format(
        "{}: {}\n",
        is_read(*entry) ? entry->name + " " + signature_text(*entry) : called_text(*entry),
        entry->doc);
  }
  return explain_operator(name);
}

}  // namespace xrun
