#pragma once
// Reads the arguments of a filter, test, method or function in the order of its signature.

#include <string_view>

#include "core/text/jinja/jinja_value.h"

namespace xrun::jinja {

class ArgumentReader {
 public:
  ArgumentReader(std::string_view callee, Arguments& arguments)
      : callee_(callee), arguments_(arguments) {}

  // Returns the next argument, by place or by name; null if it was not given.
  const Value* next(std::string_view name) {
    if (at_ < arguments_.positional.size()) return &arguments_.positional[at_++];
    for (const auto& [key, value] : arguments_.named) {
      if (key == name) {
        ++named_;
        return &value;
      }
    }
    return nullptr;
  }

  const Value& required(std::string_view name) {
    const Value* value = next(name);
    XRUN_JINJA_CHECK(value != nullptr, "{}() misses its argument '{}'", callee_, name);
    return *value;
  }

  // The next argument as an integer, a boolean or a text. None counts as not given for text.
  int64_t integer(std::string_view name, int64_t otherwise) {
    const Value* value = next(name);
    if (value == nullptr) return otherwise;
    XRUN_JINJA_CHECK(value->is_integral(), "{}(): '{}' must be an integer, not {}", callee_, name,
                     type_name(*value));
    return value->as_int();
  }
  bool boolean(std::string_view name, bool otherwise) {
    const Value* value = next(name);
    return value == nullptr ? otherwise : is_truthy(*value);
  }
  TextPtr text(std::string_view name) {
    const Value* value = next(name);
    if (value == nullptr || value->is_none()) return nullptr;
    XRUN_JINJA_CHECK(value->is_text(), "{}(): '{}' must be a str, not {}", callee_, name,
                     type_name(*value));
    return value->as_text();
  }

  // Throws Fault if arguments are left that nobody asked for.
  void finish() const {
    XRUN_JINJA_CHECK(at_ == arguments_.positional.size() && named_ == arguments_.named.size(),
                     "{}() got arguments that it does not take", callee_);
  }

 private:
  std::string_view callee_;
  Arguments& arguments_;
  size_t at_ = 0;
  size_t named_ = 0;
};

}  // namespace xrun::jinja
