#pragma once
// The parts that tokenizer.json names by "type", and the tables which their files enter.

#include "core/base/error.h"
#include "core/base/json.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace xrun {

// One component's JSON with the place to name in a message ("dir/tokenizer.json: normalizer").
class ComponentSpec {
 public:
  ComponentSpec(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  // Each throws Error that names the place, the key and what was found and wanted. A null member
  // counts as absent; without a fallback an absent one is an error.
  const std::string& type() const { return text("type"); }
  const std::string& text(const std::string& key) const;
  const std::string& character(const std::string& key) const;  // a string of one character
  bool boolean(const std::string& key, std::optional<bool> fallback = {}) const;
  int64_t integer(const std::string& key) const;
  bool has(const std::string& key) const;
  ComponentSpec member(const std::string& key) const;
  std::vector<ComponentSpec> list(const std::string& key) const;
  const Json& json() const { return json_; }

 private:
  const Json& find(const std::string& key) const;
  const Json& json_;
  std::string where_;
};

// The known types of one kind of component. A component's own .cpp adds its line by a constant:
//   const bool kAdded = ComponentTable<Normalizer>::add("NFC", make_nfc);
template <class Component>
class ComponentTable {
 public:
  using Make = std::unique_ptr<const Component> (*)(const ComponentSpec&);

  static bool add(const char* type, Make make) {
    entries().emplace_back(type, make);
    return true;
  }
  // Throws Error that names the place, the unknown type and the known ones.
  static std::unique_ptr<const Component> make(const ComponentSpec& spec) {
    std::vector<std::string> known;
    for (const auto& [type, make] : entries()) {
      if (spec.type() == type) return make(spec);
      known.emplace_back(type);
    }
    throw_unknown(spec, std::move(known));
  }
  static std::vector<std::unique_ptr<const Component>> make_all(
      const std::vector<ComponentSpec>& specs) {
    std::vector<std::unique_ptr<const Component>> parts;
    for (const ComponentSpec& spec : specs) parts.push_back(make(spec));
    return parts;
  }

 private:
  static std::vector<std::pair<const char*, Make>>& entries() {
    static std::vector<std::pair<const char*, Make>> table;
    return table;
  }
  [[noreturn]] static void throw_unknown(const ComponentSpec& spec, std::vector<std::string> known);
};

// Throws the Error for a type that no file implements.
[[noreturn]] void throw_unknown_component(const ComponentSpec& spec,
                                          std::vector<std::string> known);

template <class Component>
void ComponentTable<Component>::throw_unknown(const ComponentSpec& spec,
                                              std::vector<std::string> known) {
  throw_unknown_component(spec, std::move(known));
}

}  // namespace xrun
