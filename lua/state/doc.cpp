// Entries live in a deque, so that a Lua closure may keep a plain pointer to its binding.

#include "lua/state/doc.h"

#include <deque>
#include <map>
#include <mutex>

#include "core/base/error.h"

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

const Binding* register_binding(Binding binding) {
  const DocEntry& entry = binding.entry;
  XRUN_CHECK(!entry.name.empty(), "a binding without a name");
  XRUN_CHECK(!entry.doc.empty(), "{} has no doc string", entry.name);
  XRUN_CHECK(entry.kind == DocKind::kClass || !entry.signature.empty(), "{} has no signature",
             entry.name);
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (auto found = all.by_name.find(entry.name); found != all.by_name.end()) {
    const Binding& known = *found->second;
    const bool calls_another = binding.invoke != nullptr && (known.invoke != binding.invoke ||
                                                             known.function != binding.function);
    XRUN_CHECK(!calls_another, "{} is registered already, {}; give this one a name of its own",
               entry.name,
               known.invoke == nullptr ? "without a function" : "with another function");
    return &known;
  }
  all.bindings.push_back(std::move(binding));
  const Binding* kept = &all.bindings.back();
  all.by_name.emplace(kept->entry.name, kept);
  return kept;
}

void register_doc(DocEntry entry) {
  register_binding(Binding{.entry = std::move(entry), .function = nullptr, .invoke = nullptr});
}

std::vector<DocEntry> doc_entries() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::vector<DocEntry> entries;
  entries.reserve(all.bindings.size());
  for (const Binding& binding : all.bindings) entries.push_back(binding.entry);
  return entries;
}

const DocEntry* find_doc(std::string_view name) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  auto found = all.by_name.find(name);
  if (found == all.by_name.end()) found = all.by_name.find("xrun." + std::string(name));
  return found == all.by_name.end() ? nullptr : &found->second->entry;
}

}  // namespace xrun
