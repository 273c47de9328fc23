#pragma once
// What every public name of the Lua side says about itself: the one source of docs/lua-api.md,
// `xrun explain` and the LuaLS stubs.

#include <lua.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

enum class DocKind { kClass, kMethod, kProperty, kFunction, kValue, kMetamethod };

// One public name. `name` is spelt as a recipe reads it: "xrun.policy", "Policy:logprob" (method),
// "Policy.tokenizer" (property), "Policy" (class). `signature` is "(view) -> Tensor [n]" for what
// is called, a type for properties and values, "" for classes. `doc` is a sentence or more.
struct DocEntry {
  std::string name;
  DocKind kind = DocKind::kFunction;
  std::string signature = {};
  std::string doc = {};
};

// A C++ function that Lua can call: the typed function, how to call it, and what it says of itself.
struct Binding {
  DocEntry entry;
  void* function = nullptr;
  int (*invoke)(lua_State*, void* function) = nullptr;
};

// Keeps one binding a name for the whole process and returns its lasting address; a name that is
// registered again (a second state) keeps its first entry. Throws Error if name, doc or, for what
// is called, the signature is empty, and if the name is known with another function or with none.
// Thread-safe.
const Binding* register_binding(Binding binding);

// Documents a name that is no function here: a class, a value. Same rules; a known name is left.
void register_doc(DocEntry entry);

// All entries in order of registration.
std::vector<DocEntry> doc_entries();

// The entry of a name, or nullptr. A recipe's "policy" finds "xrun.policy" as well.
const DocEntry* find_doc(std::string_view name);

}  // namespace xrun
