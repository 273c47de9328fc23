#pragma once
// Components of tokenizer.json: objects whose "type" names an implementation.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/strings.h"

namespace xrun {

// The JSON of one component, with its path for messages ("dir/tokenizer.json: normalizer").
class ComponentSpec {
 public:
  ComponentSpec(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  // Each throws Error naming the path, the key, the value found and the value wanted. A null member
  // counts as absent; an absent member without a fallback is an error.
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

// A row of the table of one kind of component; tables are sorted by name.
template <class Component>
struct ComponentType {
  const char* name;
  std::unique_ptr<const Component> (*make)(const ComponentSpec&);
};

// Makes a component of type Made, from its spec if its constructor takes one.
template <class Component, class Made>
std::unique_ptr<const Component> make_component(const ComponentSpec& spec) {
  if constexpr (std::is_constructible_v<Made, const ComponentSpec&>) {
    return std::make_unique<const Made>(spec);
  } else {
    return std::make_unique<const Made>();
  }
}

[[noreturn]] void throw_unknown_component(const ComponentSpec& spec, const std::string& known);

// Makes the component that the spec's "type" selects. Throws Error naming the path, the unknown
// type and the known ones.
template <class Component>
std::unique_ptr<const Component> make_from_table(std::span<const ComponentType<Component>> table,
                                                 const ComponentSpec& spec) {
  std::string known;
  for (const ComponentType<Component>& row : table) {
    if (spec.type() == row.name) return row.make(spec);
    add_item(known, row.name);
  }
  throw_unknown_component(spec, known);
}

// Makes one component of each spec.
template <class Component>
std::vector<std::unique_ptr<const Component>> make_each(
    const std::vector<ComponentSpec>& specs,
    std::unique_ptr<const Component> (*make)(const ComponentSpec&)) {
  std::vector<std::unique_ptr<const Component>> made;
  for (const ComponentSpec& spec : specs) made.push_back(make(spec));
  return made;
}

}  // namespace xrun
