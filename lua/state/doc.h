#pragma once
// The documentation of every public name of the Lua side: the one source of docs/lua-api.md,
// `xrun explain`, completion and the LuaLS stubs.

#include <lua.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"

namespace xrun {

enum class DocKind { kClass, kMethod, kProperty, kFunction, kValue, kMetamethod };

// Types are spelt as LuaLS spells them: "Tensor", "View|Batch", "integer[]", "fun(): number".

// A key of a table of options, always optional: {"scale", "boolean", true}. This is its only
// declaration: Options (args.h) reads it, and the pages and stubs show it. A range is checked where
// the value is used, since most ranges also hold for callers in C++.
struct LuaOption {
  LuaOption(std::string_view name, std::string_view type, Json default_value = {})
      : name(name), type(type), default_value(std::move(default_value)) {}

  std::string name, type;
  Json default_value;  // null: none, or one that depends on other values
};

// A parameter: {"view", "View|Batch"}. "name?" is optional, "..." takes the rest. A table lists its
// options: {"options?", "table", {{"scale", "boolean", true}, {"eps", "number", 1e-6}}}.
struct LuaParameter {
  LuaParameter(std::string_view name, std::string_view type, std::vector<LuaOption> options = {})
      : name(name), type(type), options(std::move(options)), optional(name.ends_with('?')) {
    if (optional) this->name.pop_back();
  }

  std::string name, type;
  std::vector<LuaOption> options;
  bool optional = false;
};

// A result, with its shape or its name: {"Tensor", "[n]"}, {"DataSet", "train"}.
struct LuaResult {
  LuaResult(const char* type, const char* note = "") : type(type), note(note) {}
  LuaResult(std::string_view type) : type(type) {}

  std::string type, note;
};

// One public name, spelt as a recipe reads it: "xrun.policy", "Policy:logprob" (method),
// "Policy.tokenizer" (property), "Policy" (class), "repl.step" (verb of the prompt), ":time" (colon
// command). A property or value has one result, its type; a class has none. `doc` is a sentence or
// more.
struct DocEntry {
  std::string name;
  DocKind kind = DocKind::kFunction;
  std::vector<LuaParameter> parameters = {};
  std::vector<LuaResult> results = {};
  std::string doc = {};
};

// Returns the keys of a table of options: the declared ones and, for a type such as
// "xrun.Config.optim", the fields of that config table.
std::vector<std::string> option_keys(const LuaParameter& parameter);

// Returns the declared default of a key; null if it has none.
Json option_default(const LuaParameter& parameter, std::string_view key);

// "(view: View|Batch, {scale? = true, eps?}) -> Tensor [n]"; the type of a property or value; ""
// for a class.
std::string signature_text(const DocEntry& entry);

// A C++ function that Lua can call: the typed function, how to call it, and its documentation.
struct Binding {
  DocEntry entry;
  void* function = nullptr;
  int (*invoke)(lua_State*, void* function) = nullptr;
};

// Keeps one binding per name for the whole process and returns its lasting address; a name that is
// registered again (a second state) keeps its first entry. Throws Error if name or doc is empty, if
// a property or value has no type, and if the name is known with another function or with none.
// Thread-safe.
const Binding* register_binding(Binding binding);

// Documents a name that has no C++ function: a class, a value. Same rules; a known name stays.
void register_doc(DocEntry entry);

// All entries in order of registration.
std::vector<DocEntry> doc_entries();

// The entry of a name, or nullptr. A recipe's "policy" finds "xrun.policy" as well.
const DocEntry* find_doc(std::string_view name);

}  // namespace xrun
