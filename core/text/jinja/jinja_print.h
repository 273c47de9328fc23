#pragma once
// Values as text: Python's str and repr, and json.dumps as transformers' `tojson` calls it.

#include <optional>
#include <string>

#include "core/text/jinja/jinja_value.h"

namespace xrun::jinja {

// Appends str(value); an undefined value is empty. Numbers have the template's origin, brackets
// that of their container. Throws Fault beyond the size or depth limits.
void print(TextBuilder& out, const Value& value, Budget& budget);
// Returns str(value) with its marks; a string is returned unchanged.
TextPtr to_text(const Value& value, Budget& budget);
// Returns repr(value) without marks.
std::string repr(const Value& value, Budget& budget);

struct JsonPrint {
  bool ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // the text of one level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// Appends json.dumps(value). Throws Fault on values that JSON cannot represent.
void print_json(TextBuilder& out, const Value& value, const JsonPrint& style, Budget& budget);

}  // namespace xrun::jinja
