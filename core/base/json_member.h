#pragma once
// A member of an object that others wrote.

#include <string>
#include <string_view>

#include "core/base/json.h"

namespace xrun {

// Returns the string under `key`; "" where there is no object, no such key or no string.
inline std::string text_member(const Json* object, std::string_view key) {
  const Json* value = object == nullptr ? nullptr : object->find(key);
  return value != nullptr && value->is_string() ? value->as_string() : "";
}
inline std::string text_member(const Json& object, std::string_view key) {
  return text_member(&object, key);
}

}  // namespace xrun
