// Entries live in a deque, so that a Lua closure may keep a plain pointer to its binding.

#include "lua/state/doc.h"

#include <deque>
#include <map>
#include <mutex>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/config/config_field.h"

namespace xrun {
namespace {

struct Registry {
  std::mutex mutex;
  std::deque<Binding> bindings;
  std::map<std::string, const Binding*, std::less<>> by_name;
};

Registry& registry() {
  static Registry* const instance = new Registry;  // outlives every state and every atexit
  return *instance;
}

}  // namespace

namespace {

// Returns the section of the config whose fields the table also takes; "" if it takes none.
std::string section_of(const LuaParameter& parameter) {
  constexpr std::string_view kConfig = "xrun.Config.";
  return parameter.type.starts_with(kConfig) ? parameter.type.substr(kConfig.size()) : "";
}

// "{scale? = true, eps?}"
std::string options_text(const std::vector<LuaOption>& options) {
  std::string text;
  for (const LuaOption& option : options) {
    const bool known = !option.default_value.is_null();
    add_item(text, option.name + "?" + (known ? " = " + dump_json(option.default_value) : ""));
  }
  return "{" + text + "}";
}

}  // namespace

std::vector<std::string> option_keys(const LuaParameter& parameter) {
  const std::string section = section_of(parameter);
  std::vector<std::string> keys;
  // "" names the top level of the config, which no function takes.
  if (!section.empty()) keys = config_field_names(section);
  for (const LuaOption& option : parameter.options) keys.push_back(option.name);
  return keys;
}

Json option_default(const LuaParameter& parameter, std::string_view key) {
  for (const LuaOption& option : parameter.options) {
    if (option.name == key) return option.default_value;
  }
  const std::string section = section_of(parameter);
  return section.empty() ? Json() : default_value(section + "." + std::string(key));
}

std::string signature_text(const DocEntry& entry) {
  std::string parameters, results;
  for (const LuaParameter& parameter : entry.parameters) {
    if (parameter.type == "table" && !parameter.options.empty()) {
      add_item(parameters, options_text(parameter.options));
    } else {
      const bool typed = !parameter.type.empty() && parameter.type != "any";
      add_item(parameters, parameter.name + (parameter.optional ? "?" : "") +
                               (typed ? ": " + parameter.type : ""));
    }
  }
  for (const LuaResult& result : entry.results) {
    add_item(results, result.type + (result.note.empty() ? "" : " " + result.note));
  }
  if (entry.kind == DocKind::kProperty || entry.kind == DocKind::kValue) return results;
  if (entry.kind == DocKind::kClass) return "";
  return "(" + parameters + ")" + (results.empty() ? "" : " -> " + results);
}

const Binding* register_binding(Binding binding) {
  const DocEntry& entry = binding.entry;
  // Refused here, so that no public name is without a doc string.
  XRUN_CHECK(!entry.name.empty(), "a binding without a name");
  XRUN_CHECK(!entry.doc.empty(), "{} has no doc string", entry.name);
  const bool read = entry.kind == DocKind::kProperty || entry.kind == DocKind::kValue;
  XRUN_CHECK(!read || entry.results.size() == 1, "{} has no type", entry.name);
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  // Every state registers the same bindings; they share one entry.
  if (auto found = all.by_name.find(entry.name); found != all.by_name.end()) {
    const Binding& known = *found->second;
    // A second function under one name would have the first one's documentation.
    const bool calls_another = binding.invoke != nullptr && (known.invoke != binding.invoke ||
                                                             known.function != binding.function);
    XRUN_CHECK(!calls_another, "{} is registered already, {}; give this one another name",
               entry.name,
               known.invoke == nullptr ? "without a function" : "with another function");
    return &known;
  }
  all.bindings.push_back(std::move(binding));
  const Binding* stored = &all.bindings.back();
  all.by_name.emplace(stored->entry.name, stored);
  return stored;
}

void register_doc(DocEntry entry) {
  register_binding(Binding{.entry = std::move(entry), .function = nullptr, .invoke = nullptr});
}

std::vector<DocEntry> doc_entries() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::vector<DocEntry> entries;
  // Copies: another thread may register more while the caller reads.
  entries.reserve(all.bindings.size());
  for (const Binding& binding : all.bindings) entries.push_back(binding.entry);
  return entries;
}

const DocEntry* find_doc(std::string_view name) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  auto found = all.by_name.find(name);
  // `xrun explain adamw` means xrun.adamw.
  if (found == all.by_name.end()) found = all.by_name.find("xrun." + std::string(name));
  return found == all.by_name.end() ? nullptr : &found->second->entry;
}

}  // namespace xrun
