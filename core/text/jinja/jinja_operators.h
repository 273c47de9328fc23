#pragma once
// Python's operators on template values.

#include <string_view>

#include "core/text/jinja/jinja_value.h"

namespace xrun::jinja {

// Python's ==. Charges the budget for what it looks at.
bool equal(const Value& a, const Value& b, Budget& budget);
// Python's <. Throws Fault if the types have no order.
bool less(const Value& a, const Value& b, Budget& budget, const char* symbol = "<");
// Python's `in`.
bool contains(const Value& container, const Value& item, Budget& budget);
// Returns the items that a for loop would see: list items, keys of a dict, characters of a text,
// nothing of an undefined value. A generator is empty afterwards. Throws Fault for the rest.
std::vector<Value> iterate(const Value& value, Budget& budget);

// Returns a op b for + - * / // % **. Throws Fault with Python's words on types that do not fit, on
// a division by zero, and where an integer leaves 64 bits.
Value apply_binary(std::string_view op, const Value& a, const Value& b, Budget& budget);

// Returns -a (or +a).
Value apply_sign(bool negative, const Value& a);

// Returns whether a op b for == != < <= > >= in, "not in".
bool compare(std::string_view op, const Value& a, const Value& b, Budget& budget);

// Returns value[start:stop:step] of a text or list; each bound an integer or None.
Value slice(const Value& value, const Value& start, const Value& stop, const Value& step,
            Budget& budget);

}  // namespace xrun::jinja
