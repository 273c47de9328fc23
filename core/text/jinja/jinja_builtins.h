#pragma once
// Filters, functions and methods by name, and the reader of their arguments.

#include <map>
#include <string_view>

#include "core/text/jinja/jinja_value.h"

namespace xrun::jinja {

using FilterBody = Value (*)(Interpreter&, const Value& input, Arguments&);
using FilterTable = std::map<std::string_view, FilterBody>;

const FilterTable& scalar_filters();  // those that give a str or a number
const FilterTable& list_filters();

// Returns a function of the environment, such as range or raise_exception; undefined if there is
// none of this name.
Value global_function(std::string_view name);

// Returns a bound method of a str, list or dict, or an undefined value whose use says why there is
// none; `found` tells whether the type has an attribute of this name. Calling a method of Python
// that is not supported throws Fault with its name.
Value bind_method(const Value& self, std::string_view name, bool& found);

// Reads the arguments of a filter, test, method or function in the order of its signature.
class ArgumentReader {
 public:
  ArgumentReader(std::string_view callee, Arguments& arguments)
      : callee_(callee), arguments_(arguments) {}

  // Returns the next argument, by position or by name; null if it was not given.
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
    XRUN_JINJA_CHECK(value != nullptr, "{}() is missing argument '{}'", callee_, name);
    return *value;
  }

  // Return the next argument as an integer, a boolean or a string. A string that is None counts as
  // not given.
  int64_t integer(std::string_view name, int64_t default_value) {
    const Value* value = next(name);
    if (value == nullptr) return default_value;
    XRUN_JINJA_CHECK(value->is_integral(), "{}(): '{}' must be an integer, not {}", callee_, name,
                     type_name(*value));
    return value->as_int();
  }
  bool boolean(std::string_view name, bool default_value) {
    const Value* value = next(name);
    return value == nullptr ? default_value : is_truthy(*value);
  }
  TextPtr text(std::string_view name) {
    const Value* value = next(name);
    if (value == nullptr || value->is_none()) return nullptr;
    XRUN_JINJA_CHECK(value->is_text(), "{}(): '{}' must be a str, not {}", callee_, name,
                     type_name(*value));
    return value->as_text();
  }

  // Throws Fault if an argument was given that the callee does not take.
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
