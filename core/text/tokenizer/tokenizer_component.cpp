// Typed access to a component's members; every failure names the path of the member.

#include "core/text/tokenizer/tokenizer_component.h"

#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

const Json& ComponentSpec::find(const std::string& key) const {
  XRUN_CHECK(json_.is_object(), "{}: got {}, wanted an object", where_, json_.kind_name());
  const Json* member = json_.find(key);
  // The package writes null for an absent member.
  XRUN_CHECK(member != nullptr && !member->is_null(), "{}: the key \"{}\" is missing", where_, key);
  return *member;
}

bool ComponentSpec::has(const std::string& key) const {
  const Json* member = json_.find(key);
  return member != nullptr && !member->is_null();
}

const std::string& ComponentSpec::text(const std::string& key) const {
  const Json& member = find(key);
  XRUN_CHECK(member.is_string(), "{}.{}: got {}, wanted a string", where_, key, member.kind_name());
  return member.as_string();
}

const std::string& ComponentSpec::character(const std::string& key) const {
  const std::string& found = text(key);
  XRUN_CHECK(!found.empty() && utf8_size(found[0]) == found.size(),
             "{}.{}: got \"{}\", wanted one character", where_, key, found);
  return found;
}

bool ComponentSpec::boolean(const std::string& key, std::optional<bool> fallback) const {
  if (fallback && !has(key)) return *fallback;
  const Json& member = find(key);
  XRUN_CHECK(member.is_bool(), "{}.{}: got {}, wanted a boolean", where_, key, member.kind_name());
  return member.as_bool();
}

int64_t ComponentSpec::integer(const std::string& key) const {
  const Json& member = find(key);
  XRUN_CHECK(member.is_int(), "{}.{}: got {}, wanted an integer", where_, key, member.kind_name());
  return member.as_int();
}

ComponentSpec ComponentSpec::member(const std::string& key) const {
  return ComponentSpec(find(key), where_ + "." + key);
}

std::vector<ComponentSpec> ComponentSpec::list(const std::string& key) const {
  const Json& member = find(key);
  XRUN_CHECK(member.is_array(), "{}.{}: got {}, wanted an array", where_, key, member.kind_name());
  std::vector<ComponentSpec> specs;
  for (size_t i = 0; i < member.size(); ++i) {
    specs.emplace_back(member.as_array()[i], fmt::format("{}.{}[{}]", where_, key, i));
  }
  return specs;
}

void throw_unknown_component(const ComponentSpec& spec, const std::string& known) {
  throw Error(fmt::format("{}: the type \"{}\" is not supported; supported: {}", spec.where(),
                          spec.type(), known));
}

}  // namespace xrun
